"""PD and TiKV as a client calls them, for all that reads from them.

channel   the edge to gRPC                     pd      where regions and stores are, and what time it is
regions   a range of keys, cut along regions   kv      calls to the leader of a region
locks     locks that dead clients left         scan    the rows of a range as of a timestamp
gc        what garbage collection keeps for us
"""
