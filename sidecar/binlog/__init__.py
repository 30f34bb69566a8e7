"""What pumps, drainers and TiDB servers write about themselves beside the streams of TiDB-Binlog: `nodes`, their entries in PD's etcd."""
