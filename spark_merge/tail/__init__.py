"""What became of a table's rows, or of one row, out of the log: for people who ask why a sink has what it has.

    events    what there is to say: a change, a row of a chunk, why one was dropped. Read this first
    segment   a segment's events, by the merge that the sinks have
    stream    the log's segments in their order: the last events, all of them, those that come; what retention removes meanwhile
    followed  a table under all its names;  wanted  a table and a key as somebody typed them
    shown     values as the sinks have them
    verdict   what a sink has of a key, and whether the log says so

Writes nothing: neither to the log nor to a sink. It becomes nobody's worker, and retention does not wait for it.
"""
