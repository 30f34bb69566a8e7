"""What all feeds of messages that TiCDC has encoded have in common, whatever carries them: `make` codec and schemas, `hidden` the DDLs that
no message brings, `checks` what the preflight asks.
"""
