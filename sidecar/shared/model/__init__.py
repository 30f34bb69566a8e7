"""The nouns, and what is said of a dump: between the sidecar's algorithm, the log and the merge worker. No I/O, no clock, no library.

nouns         rows, tables, positions                  messages    what a dump requests and receives
chunk         a chunk in a manifest                    progress    what is kept of a dump
keyset        the SQL of reading by key                canonical   when two texts are one value
schema_step   what a DDL means for a table             sink_delivery   how far sinks are, and in what time
hole          rows that no feed brings                 soft_delete     tables whose rows are deleted softly
"""
