"""A sink's way through the log. It knows a sink by its port only, and of Spark that tasks can run there.

batches      plan, tasks, accept: one batch after another. Read this first
loop         a sink's thread: retries, pauses, reports
places       in the worker's process or on Spark: wherever a batch ends first
complete     from where on a sink has a table whole;  sink_record  when that is written beside the log
rereads      DDLs whose values a dump brings
watchdog     ends a process that hangs;  task_errors  our errors out of Spark's tasks
"""
