"""Adapters behind the ports, a folder for each outside system: tidb/ (source and schemas), etcd/ (ownership and
progress), memory/ (the twins). `clock` has the process' clocks.

An adapter translates its driver's errors, by code, to those of sidecar.shared.errors. Nothing here decides what a dump does.
"""
