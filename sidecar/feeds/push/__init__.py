"""Changes from senders that connect to us: `server` is the edge to gRPC, `conversation` what every stream begins with, `credits` how much
each may send, `turns` who is heard when.

key-values   `puller` is the port, `session` one sender, `spans` who owns which part of a range
messages     `messages` is the port, `inlet` takes them in beside the pipeline; they are durable in log/inbox.py
"""
