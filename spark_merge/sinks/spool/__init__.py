"""The sink of subscribers (`grpc:`): a spool of deliveries as they go over the wire, which the control service hands on (sidecar/control).

sink      the driver's side: an output folder as the files sink's (sinks/files/folder.py), which is kept within bounds
writer    the tasks' part: a file a unit, of `frames`: deliveries one after another, as long as gRPC likes them
reader    a subscriber's way through what is accepted: in the sidecar's process, a frame at a time
keeping   from which segment on the spool is kept, and who the subscribers are
"""
