"""Schema changes, read once for all sinks: `parser.parsed` reads a statement, `logged.logged_ddls` those of a segment as the log has its
tables, `columns.column_effects` what they make of a table's columns. What a target can hold, and how a
change is expressed there, is the sink's.
"""
