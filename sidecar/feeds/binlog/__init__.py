"""TiDB-Binlog as a feed: what a drainer does towards PD and pumps.

feed      the port                         make, checks   what it gives to a term; what the preflight asks
streams   all pumps as one source          joining        when no pump that joins can lose anything. Pure
pump      one pump's stream                backlog        what waits, bounded in bytes
drainer   our own entry in the registry    notify         what pumps call before they serve
gaps      binlogs that were removed before they were read
jobs      DDL jobs of the stream           rows           changes for filters and log
start     the tables where a new log begins               view   what operators see of the pumps
channel   the edge to gRPC
"""
