"""Csv and canal-json files in the layout of TiCDC's storage sink, so that its readers work without a change.

`layout` what is where; `options` what a URI can say; `schema_file` a table's columns as a file, with its checksum; `names` which file comes
under which number, and which schema files go with it; `commits` whose output a folder is, and what its chain of commits (../chain.py)
holds, which is the position and the fence; `publish` how accepted files appear; `partitions` and `writer` the tasks' side; `sink` the
driver's; `uri` the sink by its URI.
`reading` its rows read back (spark_merge/port/readable.py). The formats: ../formats.

- Readers of this layout go by the files that are there, in numbers without a gap, and tasks write side by side. So tasks stage files, and
  the files get their names when the batch is accepted: the sink is of the hidden kind, and a batch can be done again in any cut.
- A commit says which files come under which numbers and dates before the first of them is seen; the next owner completes it. So a file has
  one name and one content for ever.
- Schema files, their checksums and csv are what TiCDC itself writes.
- Cost: one link for each file, on S3 one copy by the server.
"""
