"""The files sink: JSON lines or Parquet on a disk or S3, for programs that read files.

`sink` the driver's side, `writer` the tasks' side, `reader` the reference for readers, `uri` the sink by its URI. `reading`: its rows read
back (spark_merge/port/readable.py). The formats: ../formats; the folder and its position: ../folder.
"""
