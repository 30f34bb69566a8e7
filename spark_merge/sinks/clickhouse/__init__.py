"""ClickHouse as an output: of each key the row with the greatest version is seen, so tasks write in any order and any number.

uri        what the operator names: server, names, dates      server     requests, and what their errors mean
position   a journal of ours there: who writes, what it has   columns    a column's type, and when it can become another
block      rows in those types, and what these cannot hold    tables     our tables and their views: made, read, compared
writer     a task, from portions to inserts                   ddl        what a DDL does to them, read from the log
alter      what a table needs to become another               sink, fit  the port; which tables the target can hold
reading    the rows that the views show, read back by key ranges
"""

import io

_python_s_own = io.DEFAULT_BUFFER_SIZE

import clickhouse_connect.driver.client  # noqa: E402, F401 - it sets the buffers of every stream of the process to 256 KiB

io.DEFAULT_BUFFER_SIZE = _python_s_own  # type: ignore[misc]  # typeshed has it for a constant
