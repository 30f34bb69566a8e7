"""The files sink: JSON lines or Parquet on a disk or S3, for programs that read files.

`layout` what is in the output folder, `sink` the driver's side, `folder` the output as its one writer has it, `commits` its position and
fence, `writer` the tasks' side, `reader` the reference for readers, `uri` the sink by its URI.

- A JSON lines file is in output order, so a unit is a segment. Parquet rows carry their order, so chunks are units of their own, and the
  live rows of a large segment are several.
- The position is a row of commits, each created exclusively. A worker that opens the output makes the next commit; an earlier worker that
  wakes up finds its number taken.
- The name of a file has its owner and attempt, so a late task replaces no file that a reader uses.
- Outputs of 0.1.0 are continued.
"""
