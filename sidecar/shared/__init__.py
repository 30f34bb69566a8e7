"""What both processes are built from: the sidecar and the merge worker import it, and it imports neither.

errors     the errors that everything raises, each with what to do       config, config_forms, config_files, config_errors   settings
sql/       SQL text: its tokens, and what stands in quotes. Pure         model/     the nouns, and what is said of a dump. Pure
process/   threads, servers, TLS: nothing of data                        schema/    TiDB's tables over time. Pure
rowcodec/  TiDB's bytes of rows and keys, one at a time. Pure            columns/   the same, and values, a column at a time
codecs/    protocols: message bytes to envelopes. Pure                   partition/ in which partition a row is
ticdc/     what TiCDC decides: filters, topics, definition. Pure         log/       THE HAND-OFF to the merge worker, and storage
resultset/ a SELECT's rows in Arrow columns                              mysql/     every session over MySQL's protocol
tikv/      PD and TiKV, as a client calls them                           reads/     a table's rows and definition, over SQL or from TiKV
"""
