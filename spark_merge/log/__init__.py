"""The log as a sink reads it: manifests and rows of segments, decoded, in bounded memory. It must not know chunks, windows or sinks.

read         manifests, schemas and rows of the log's files. Read this first
segments     a segment's rows, decoded, by table or as committed;  cache  decoded rows for several tasks and sinks
follow       whether a log continues what an output has
undecodable  rows that an operator can skip
"""
