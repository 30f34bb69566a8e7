"""What coordinates the processes of a changefeed: `keys` the port, over TiCDC's own etcd (`messages` of the package etcd3, `client` over
them) or in a local `folder`; `opening` opens the one of the settings. Upon it: `owner` the lease, `keeper` the process that keeps it,
`progress` the projection of the log's progress, `history` the last operations, `changefeed` what TiCDC keeps there, `binlog` the registry
of TiDB-Binlog, `cluster` the id of PD's cluster. Nothing below /tidb/cdc is ever written.
"""
