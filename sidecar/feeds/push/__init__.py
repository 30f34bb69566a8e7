"""Changes from senders that connect to us: `server` is the edge to gRPC, `conversation` the beginning of every stream, `credits` how much
each sender can send, `turns` whose message is read when. `make` and `checks` are for the term and the preflight.

key-values   `puller` is the port, `session` one sender, `spans` who owns which part of a range
messages     `messages` is the port, `inlet` receives them beside the pipeline; they are durable in shared/log/inbox.py
"""
