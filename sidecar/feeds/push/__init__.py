"""Key-values from senders that connect to us: `puller` is the port, `server` the edge to gRPC, `session` one sender, `spans` who owns
which part of a range, `credits` how much each may send.
"""
