"""From the log to the sinks, as one long-running Spark application.

    contract   the sink's port, and what a task hands to a sink;  worker  the process
    delivery   a sink's way through the log, a batch at a time;  loop  a sink's thread;  cut  segments to batches, units, tasks
    complete   from where on a sink has a table whole;  sink_record  when that is written beside the log
    follow     whether a log continues what an output has;  read  the log's files
    rule       the merge, slow and obvious: READ THIS FIRST;  merge  the same, fast
    task       what a task does;  segments  a segment's rows in order;  cache  decoded rows for several tasks and sinks
    pieces     the bound in bytes of what a writer receives at once
    places     in the worker's process or on Spark;  job  tasks on Spark: SESSIONS ARE MADE HERE ONLY
    daemon, task_errors, greeting   Spark's Python workers, our errors out of them, and what Spark prints;  foreign  libraries' errors
    readable   the part of a sink's port that reads its rows back
    verify/    compares the source with the sinks while both change
    watchdog   ends a process that hangs;  undecodable  rows that an operator can leave out;  latest  the newest row of a key
    ddl/       schema changes, read once for all sinks
    decode/    bytes to canonical text, columns at a time;  encode/  text to what sinks write
    protocols  the decoder and the encoder of each protocol (sidecar/codecs/registry.py has the records)
    sinks/     a folder for each sink, registry.py the list;  testing/  the contract suites of sinks, for any package

Of the sidecar it can import core, log, codecs, rowcodec, ticdc, schema, partition, pace, mysql, resultset, process and errors.
"""
