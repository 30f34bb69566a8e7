"""The Iceberg sink: `uri` its URI, `sink` the driver's side, `writer` the tasks', `lake` the catalog and how a commit is made,
`position` the record of all tables, `tables` those with rows, `types` and `evolution` what their columns are and become,
`partition_rules` and `partitions` how rows are parted, of tables that are made and of those that are there.

Of `mode=merge`: `merge` why it is right, and the driver's side, `merge_writer` the tasks', `fold` what the driver adds, `deletes` the
snapshots that it takes, `ddl` what a schema change does to rows.
"""
