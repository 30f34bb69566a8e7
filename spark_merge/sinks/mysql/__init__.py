"""A MySQL-compatible database as an output: rows are upserted and deleted in parallel, in transactions that hold the position too.

uri         what the operator names: server, account, TiCDC's parameters      session     a connection, and what its errors mean
position    our own tables there: owner, what is accepted, what is begun, how far each worker is
tables      what the target's tables have: columns, unique keys, collations   statements  rows as SQL text
conflicts   which changes must stay in order, and which worker has them       weights     which texts the target takes for one
workers     transactions, each with its slot                                  pool        connections that are kept warm
writer      a task, from portions to workers                                  sink        the port
ddl*        schema changes, read, rewritten and carried out once              create      tables that are not there yet
"""
