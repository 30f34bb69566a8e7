"""What all feeds of messages that TiCDC has encoded have in common, whatever carries them: `make` codec and schemas, `hidden` the DDLs that
no message brings, `claims` the rows that are in files, `files` a folder that TiCDC writes, `checks` the preflight's.
"""
