"""How fast a dump can go beside the live changes (P3): no I/O, no clock.

clocks      the worker's wall clock in the sidecar's seconds
live        which segments are samples of live delivery, and their percentiles
cost        what a sink's batches cost without a dump, and what a dump's row adds
outage      since when the source is away, and when it is queried again
flight      how much of it may be read and not in the log: what the way of the marks needs
throttle    the rows and bytes a second that operators set, dump by dump
controller  how much of it the log can have before sinks, so that live delivery stays within its bound
"""
