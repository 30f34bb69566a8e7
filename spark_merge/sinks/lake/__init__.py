"""A sink over tables of a lake: files of rows, and for each table a chain of commits that names those which count. `delta` and `iceberg`
are lakes.

`lake_sink` the sink and its port, `ddl` what a schema change does to tables, `steps` how a table is brought to its end, `maintenance`
what keeps tables cheap to read, beside the sink.

    open → plan (what tasks write for, a table each) → files, in tasks → the position is still ours → each table's commits → the record
         → the position

Rules of every lake
- A table itself says which segments it has. Each commit of rows names them, and is valid only on the version of the table that was looked
  at. After another commit the table is looked at again. So a batch in another cut, or an earlier worker that wakes up, brings no row twice.
- Tasks write no segment that their table had at the plan. A file of which the table has got a part since fails the batch.
- All commits of a batch come before the position. A worker that dies between two tables leaves some of them a batch ahead.
- A table says whether it has a DDL, as it says which segments it has. So a repetition carries out the rest.
- What is known of a table is believed while this worker is the owner, until its schema changes or a DDL alters it. A commit looks again.
- A DDL of `ddl-done` changes no row. Nobody knows what the operator's hand has changed, so a dump's later rows are merged.

Where lakes differ, with their reasons
- Delta's rows and DDL are two commits: delta-rs adds columns in one of their own. The rows come first, so an operator who carries out a
  refused DDL by hand sees them. An Iceberg table has both in one commit, and none of it where the DDL is refused.
- Columns of a log of changes come to a Delta table with the first rows that have them: they go by names. An Iceberg file has the field ids
  of its table, so the table is first.
- Delta's tables are committed side by side. pyiceberg's catalog is of one thread.
- Iceberg sweeps a table after a commit of its own, on which no earlier owner's can follow. Delta sweeps only what no commit names.
- An Iceberg table names its owner in a property, so an earlier one stops at it. Delta's log has it in the commit's text, which is not read.
- An Iceberg output records its tables with rows, so one that is gone is missed by any owner. Delta's misses one that was there at the plan.
"""
