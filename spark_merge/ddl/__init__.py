"""Schema changes, read once for all sinks: `parser.parsed` reads a statement, `logged.logged_ddls` those of a segment as the log has its
tables, `columns.column_effects` what they make of a table's columns. What a target can hold, and how it is told, is the sink's.
"""
