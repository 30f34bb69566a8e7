"""What a sink is, and what it is handed. It must not know how rows are read, decoded or merged, nor which sinks there are.

contract   the port: batches, tasks, units, portions, the sink's five calls. Read this first
readable   the optional part that reads a sink's rows back, for verifications
kinds      what a sink's folder, or a third party's package, gives the registry
maintained the optional part of targets that consist of files: how many there are, and their compaction
keys       a row's key as text and number, and which row of a key is the last
pieces     the bound in bytes of what a writer receives at once;  foreign  errors of libraries, with their place
"""
