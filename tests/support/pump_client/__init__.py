"""What TiDB itself contains to write its binlogs: `choice` of a pump, `client` that writes to the chosen one."""
