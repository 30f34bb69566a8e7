"""The files sink: JSON lines or Parquet on a disk or S3, for programs that read files.

`sink` the driver's side, `writer` the tasks' side, `reader` the reference for readers, `uri` the sink by its URI. `reading`: its rows read
back (spark_merge/port/readable.py). The formats: ../formats; the folder and its position: ../folder.

- A JSON lines file is in output order, so a unit is a segment. Parquet rows carry their order, so chunks are units of their own, and the
  live rows of a large segment are several.
"""
