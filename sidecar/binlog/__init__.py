"""What pumps, drainers and TiDB servers tell each other beside the streams of TiDB-Binlog: `nodes`, their entries in PD's etcd."""
