"""What several sinks are built of, in the order in which the author of a sink needs it. It knows no sink.

options      a sink's options, declared once             durations, passwords, folder_uri   values in a URI
server       a server that driver and tasks connect to   errors      what a storage's errors mean
fence        what every position checks                  position    one position keeper over a port of read and compare-and-swap
chain        that position as commits, for files         records     a durable record that is a file of JSON
target_tables   whether a table of the target is ready for rows, and whether it may be made
written      a batch whose rows are there while its DDLs are pending       table_ddl    DDLs that no target with tables can follow
grouped      texts in groups that a request holds        held        rows that wait for a lake's file
keyed        a SQL table, read back by its key           row_versions   rows of outputs that keep rows of all times
"""
