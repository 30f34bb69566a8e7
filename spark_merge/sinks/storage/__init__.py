"""The csv and json files sink in the layout of TiCDC's storage sink, so that readers of that work on it unmodified.

`layout` what is where; `options` what a URI may say; `schema_file` a table's columns as a file, with its checksum; `names` which file
comes under which number, and which schema files go with it; `commits` the position and the fence; `publish` how what is accepted appears;
`partitions` and `writer` the tasks' part; `sink` the driver's; `uri` the sink by its URI.
"""
