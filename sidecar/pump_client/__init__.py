"""What TiDB has in itself to write its binlogs: `choice` of a pump, `client` that writes to the one chosen. A library, for tests and
measurements above all; no part of the sidecar uses it.
"""
