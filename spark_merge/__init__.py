"""From the log to the sinks, as one long-running Spark application.

    contract   the sink's port, and what a task hands to a sink;  worker  the process
    delivery   a sink's way through the log, a batch at a time;  cut  segments to batches, units, tasks
    follow     that a log goes on from what an output has
    task       what a task does;  segments  a segment's rows in order;  read  the log's files
    rule       the merge, slow and obvious: READ THIS FIRST;  merge  the same, fast
    ddl/       schema changes, read once for all sinks
    decode/    bytes to canonical text, columns at a time;  encode/  text to what sinks write
    sinks/     a folder a sink, registry.py the list
    job        tasks on Spark: SESSIONS ARE MADE HERE ONLY;  daemon, task_errors  its Python workers, and our errors out of them

Of the sidecar it may know core, log, codecs, rowcodec, ticdc, schema and errors.
"""
