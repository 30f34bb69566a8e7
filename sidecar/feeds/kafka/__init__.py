"""TiCDC's Kafka topics as a feed.

feed      the port, read straight down       rounds    what can be released, what must be queried. Pure
start     where reading begins               asking    the question under way; names: the source's part of it, in the background
reading   the consumer                       commits   offsets for operators
truncation  what was read is still there     lanes     the names of partitions. Pure
client    the edge to librdkafka             checks, tail, replication   what the preflight checks of it
make      what it gives to a term
"""
