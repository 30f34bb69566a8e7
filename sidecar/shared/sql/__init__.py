"""SQL text, to read and to write: `lexer` cuts it into tokens as TiDB does, `text` quotes it and reads it back.

Pure, below the core. It knows no statement and no table: grammars are their readers' (spark_merge/ddl, shared/ticdc, shared/partition).
"""
