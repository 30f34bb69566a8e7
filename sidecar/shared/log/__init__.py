"""THE HAND-OFF to the merge worker: segments, chunks and schemas as files, and the storage that they are on.

    manifest, schemas_file, layout   what is written beside a segment's data, and the name of every file: the contract
    manifests          reading them: of one segment, of several in a row, the last one
    rows_file          a segment's rows and a chunk's, as Parquet;  dumps_file  the tables of dumps that have many
    segment_log        writing: exclusive manifests are the fence against an earlier owner; recovery, sweep, retention
    identity, disjoint which log it is, and that its folder contains no other output
    delivery_report    what the merge worker reports;  deliveries  the sidecar's reader of it
    hashed             a file that is hashed while it is written;  row_sums  the sum of a chunk's row hashes
    absent             rows of a chunk's file that are keys without a row
    inbox              messages of TiCDC's own sink that no segment has yet
    spill              sorted runs outside of memory, before there is a segment
    verification       the request for a verification, and its results;  verification_files  its files;  verification_state  a summary
    owned              what an owner writes beside the segments, so that a late one changes nothing of a later one's
    certificate        the certificate of a finished dump;  certificate_parts  what is collected for it;  certificate_sums  what that is
    dump_files         files of dumps that are over: certificates, reports
    sink_tables        which tables each sink has whole, as its worker writes it;  filled  words that a hole is filled
    skips              rows that an operator skipped;  parked  messages of the feed that he parked;  reserve  room for a full volume
    float_texts        canonical text of floats, a column at a time
    storage/           a URL to a folder of any storage: whole and durable, or not at all

spark_merge reads through the same manifest, layout and storage. This package must not know what a dump, a feed or a sink is.
"""
