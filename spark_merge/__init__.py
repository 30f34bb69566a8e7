"""From the log to the sinks, as one long-running Spark application. Rooms, lowest first; each looks only into those above its line:

    port/      the sink's contract, and what a task hands to a sink
    codecs/    bytes to canonical text, and text to what sinks write, columns at a time
    log/       the log's segments and manifests, as a sink reads them
    merge/     which rows of a chunk count, cut into tasks: READ merge/rule.py FIRST
    delivery/  a sink's way through the log, a batch at a time
    ddl/       schema changes, read once for all sinks
    masks/     columns that a sink's target does not have, or has as a hash or a constant: a view of any sink
    sinks/     a folder for each sink, sinks/registry.py the list
    verify/    compares the source with the sinks while both change
    tail/      what became of a table's rows, out of the log, for people
    worker/    the process, and tasks on Spark
    testing/   the contract suites of sinks, for any package

Of `sidecar` it imports sidecar/shared and nothing else.
"""
