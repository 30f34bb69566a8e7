"""Schema changes, read once for all sinks.

    parser    a statement;  alter_table, column_syntax, partition_syntax  its parts;  tokens, reader  its words
    logged    the statements of a segment, with the tables that the log has
    effects   what became of each table of a segment: the one interpretation that every sink follows
    columns   what became of a table's columns;  conversion  of their values, where a type changes;  narrowest  of values that are there
    eras      what rows from before the schema changes are, by an output and its DDLs alone
    names     a statement with the names of the log's tables, and of the target's;  routes  which names a target has

What a target can hold, and how a change is expressed there, is the sink's.
"""
