"""The outside behind the ports, a folder each: tidb/ source and schemas, etcd/ ownership and progress, memory/ the twins, clock.

Drivers' errors are translated here, by code, to those of sidecar.errors. Nothing here decides what a dump does.
"""
