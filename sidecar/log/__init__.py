"""THE HAND-OFF, shared with Spark: segments, chunks and schemas as files, and the storage that they are on.

    manifest, layout   what is written beside a segment's data, and every file's name: the contract
    segment_log        writing: exclusive manifests are the fence against a former owner; recovery, sweep, retention
    identity, apart    which log it is, and that its folder is its own
    delivered          what the merge worker tells back;  deliveries  the sidecar's reader of it
    spill              sorted runs outside of memory, before there is a segment
    storage            a URL to a folder of any storage; whole and durable, or not at all
    errors             what a storage's errors mean to who writes or reads the log

spark_merge reads through the same manifest, layout and storage. It must not know what a dump, a feed or a sink is.
"""
