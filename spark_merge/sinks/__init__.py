"""Outputs, a folder each; `registry` is the one list, by URI scheme; `kind` is what a folder, or a third party's package, gives it.

    files/     JSON lines or Parquet on a disk or S3;  console/  a line a segment;  spool/  what the control service
    streams to subscribers;  memory/  the twins, the smallest of each kind

A sink's folder may import its own driver, and nobody else's. spark_merge/contract.py says what a sink is; tests/contract/sink_port.py is
what each must pass.
"""
