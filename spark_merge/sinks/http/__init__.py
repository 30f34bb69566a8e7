"""The http: sink: the merged stream by POST to a receiver, in order and exactly once (deploy/HTTP-SINK.md is the contract).

uri      the receiver, and how it is reached            state, position  what the receiver keeps, and where in the stream that is
client   one request, its retries, what answers mean    lines    rows as JSON lines, in their order
records  schemas, windows, DDLs and marks as lines      writer   lines in bodies, each from one state to the next
sink     who may send, and what is accepted             reading  what a receiver gives back (spark_merge/port/readable.py)

- The receiver keeps one state and swaps it in the transaction that stores the lines of a body. The state is position, fence and the record
  of what was begun. So each line arrives once and in its place, whichever process dies, and whatever the bodies are.
"""
