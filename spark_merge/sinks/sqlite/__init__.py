"""Tables in one SQLite file, each as it is in TiDB: the smallest complete sink, and the worked example of "Write a sink" (../README.md).

    database    the file: connections, transactions, and what SQLite's errors mean
    position    how far the output is and who may write it (`PositionStore`)
    tables      a table's statements: create, put and delete rows, follow a schema change
    reading     a table's rows, read back
    sink        the driver, the tasks' part, and the URI

Of the committing kind. The order of what becomes durable:

    rows and `written` (a task, one transaction) → schema changes and `accepted` (one transaction)

- A batch is one task, whose rows come in commit order. Its transaction checks the owner, applies the rows and notes the batch's last
  segment: so a batch that is done again finds itself written, and a replaced worker writes nothing.
- SQLite's DDL is transactional: the schema changes that end a batch and the position that accepts it are both there or neither.
- Values are TiDB's canonical text, exact for each type; whole numbers that fit are SQLite's integers.
"""
