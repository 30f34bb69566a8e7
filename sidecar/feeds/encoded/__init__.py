"""What all feeds of messages that TiCDC has encoded have in common, whatever carries them: `make` codec and schemas, `hidden` the DDLs that
no message brings, `whole_rows` the rows that are larger than a message: `claims` those in files, `read_rows` those of which TiCDC sent
the key (`keys`), `files` a folder that TiCDC writes, `column_order` columns that it confuses, `parked` messages that an operator
lets the stream pass, `checks` the preflight's.
"""
