"""TiCDC's Kafka topics as a feed.

feed      the port, read straight down       rounds    what can be released, what must be queried. Pure
start     where reading begins               asking    the question under way; names: the source's part of it, in the background
reading   the consumer                       commits   offsets for operators
client    the edge to librdkafka             lanes     the names of partitions. Pure
make      what it gives to a term            checks, tail   what the preflight checks of it
"""
