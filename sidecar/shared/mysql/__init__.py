"""Every session over MySQL's protocol: with TiDB, MariaDB or MySQL, as the source or as a sink's target.

It decides what a session sets (by its role), which errors pass, whose server an error is of, and when a lost statement is ended.
It must not know tables of ours, chunks, marks, segments or sinks: the callers bring the SQL.

To read: `roles`, `flavour` (what the server is) ─► `setup` (one table of session variables) ─► `errors` (one table of codes) ─►
`session` (a connection) ─► `retry` (an action, again while its errors pass) ─► `key_ranges` (where a table's key is cut).
`account` is the login of the source; a sink brings its own `MysqlServer`. `collation`: whether a server compares texts by their bytes.
"""
