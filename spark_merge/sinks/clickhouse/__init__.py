"""ClickHouse as an output: of each key the row with the greatest version is seen, so tasks write in any order and any number.

uri        what the operator names: server, names, dates      server     requests, and what their errors mean
position   a journal of ours there: who writes, what it has   columns    a column's type, and when it can become another
block      rows in those types, and what these cannot hold    tables     our tables and their views: made, read, compared
writer     a task, from portions to inserts                   ddl        what a DDL does to them, read from the log
alter      what a table needs to become another               sink, fit  the port; which tables the target can hold
reading    the rows that the views show, read back by key ranges

- Types are exact. A value that a type cannot hold is rejected with what to do.
- ClickHouse has no compare-and-set. What was reported to one owner as accepted stays accepted, and an earlier owner sees that it lost.
- A schema change is on record with the table, and removes no row that is newer than it.
"""

import io

_python_s_own = io.DEFAULT_BUFFER_SIZE

import clickhouse_connect.driver.client  # noqa: E402, F401 - it sets the buffers of every stream of the process to 256 KiB

io.DEFAULT_BUFFER_SIZE = _python_s_own  # type: ignore[misc]  # typeshed has it for a constant
