"""A MySQL-compatible database as an output: rows are upserted and deleted in parallel, in transactions that hold the position too.

uri         what the operator names: server, account, TiCDC's parameters      server      how sessions (sidecar/shared/mysql) log in
position    our own tables there: owner, what is accepted, what is begun, how far each worker is
server_table   a table as the server shows it                                 statements  rows as SQL text
tables      how rows go into it, and why they do not:
  holds     a column has not every value of the source's                      compares    a key takes two rows for one
conflicts   which changes must stay in order, and which worker has them       weights     which texts the target takes for equal
workers     transactions, each with its slot                                  pool        connections that are kept warm
writer      a task, from portions to workers                                  sink        the port
ddl, ddl_dialect, ddl_picture, ddl_clock   schema changes, translated and carried out once
ddl_values  whether the target makes of existing rows what TiDB made          formulas    generated columns that it computes itself
ddl_partitions   whether a partition of the target has the source's rows
create      tables that are not there yet                                     fit         which tables the target can hold
by_bytes    texts of a cluster that compares their bytes                      reading     the rows that are there, read back by key ranges

- Rows and slot are in one transaction, so nothing is written twice and no row goes back.
- Changes that share a value of a unique key of the target stay in order, on one worker or behind a flush of all workers.
- A schema change is carried out once. What the tables were is noted with the intent, and after a death the tables themselves show whether
  it was done. Where they do not, the sink stops.
"""
