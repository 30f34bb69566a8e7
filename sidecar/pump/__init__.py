"""A pump of TiDB-Binlog: TiDB writes prewrite and commit binlogs to it, drainers read sorted transactions from it.

    WriteBinlog ──► storage: value log (durable) ──► index ──► sorter ──► maxCommitTS ──► PullBinlogs
                                                                 ▲
                                       lost: TiKV is asked for what TiDB did not say

`record`, `value_log`, `collected`, `index`, `sorter`, `storage` keep and sort; `lost` finds the ends of transactions whose commit binlog
does not come; `service` answers gRPC, `pages` HTTP, `front` both on one port; `node` is the pump's place in the registry; `app` is all of
it as a process.
deploy/PUMP.md says how it is run, and where it differs from pingcap/tidb-binlog's pump.
"""
