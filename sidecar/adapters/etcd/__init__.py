"""TiCDC's own etcd: `messages` of the package etcd3, `client` over them, `owner` the lease, `progress` the log's projection, `changefeed`
what TiCDC keeps there. Nothing below /tidb/cdc is ever written.
"""
