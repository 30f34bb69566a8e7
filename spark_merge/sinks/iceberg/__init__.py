"""The Iceberg sink: for each table a log of changes, or the table as it is, as an Iceberg table.

`uri` its URI, `sink` the driver's side, `writer` the tasks' side, `lake` the catalog and how a commit is made, `rest` REST catalogs,
`position` the record of all tables, `tables` those with rows, `modes` what the two modes do in their own way,
`types` and `evolution` what their columns are and become,
`partition_rules` and `partitions` how rows are partitioned, `reading` a table's
rows at the position, `maintenance` its compaction and expiry. For `mode=merge`: `merge` why it is right, and the driver's side,
`merge_writer` the tasks' side, `fold` what the driver adds, `deletes` the snapshots that it takes, `hidden_rows` which rows no delete
file hides.

- It follows the rules of every lake (sinks/lake).
- A row is in the partition that Iceberg's specification names, for whatever partitions the table has.
- A merged table has for each key what its last live row made, or else the dump's row, whatever compacts it.
- A read of the past is the source at that position. A column keeps its field through schema changes.
"""
