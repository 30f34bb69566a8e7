"""A pump of TiDB-Binlog: TiDB writes prewrite and commit binlogs to it, drainers read sorted transactions from it.

    WriteBinlog ──► storage: value log (durable) ──► index ──► sorter ──► maxCommitTS ──► PullBinlogs
                                                                 ▲
                                       lost: TiKV is queried for what TiDB did not send

`record`, `value_log`, `collected`, `index`, `sorter`, `storage` keep and sort; `lost` finds the ends of transactions whose commit binlog
does not come, and `tikv` asks for them; `service` answers gRPC, `pages` HTTP, `front` both on one port; `node` is the pump's entry in the
registry; `config` its settings, `metrics` its metrics; `app` is all of it as a process.
deploy/PUMP.md describes how to run it, and where it differs from pingcap/tidb-binlog's pump.
"""
