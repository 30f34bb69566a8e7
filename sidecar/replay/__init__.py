"""A recording plays the part of a cluster, and its truth judges the output. May import everything; nothing imports it."""
