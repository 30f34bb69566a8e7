"""The sink of subscribers (`grpc:`): a spool of deliveries in the form in which the control service sends them (sidecar/control).

sink      the driver's side: an output folder as the files sink's (sinks/folder/output.py), which is kept within bounds
writer    the tasks' side: a file for each unit, of `frames`: deliveries one after another, in sizes that gRPC can send
reader    a subscriber's way through what is accepted: in the sidecar's process, a frame at a time
keeping   from which segment on the spool is kept, and who the subscribers are
uri       the sink by its URI

- Position and fence are the files sink's. The sidecar streams only what is accepted.
- A subscriber has every segment once and in order, from the number that it names. One that is too late, or that names another log, gets an
  error.
- A subscriber that does not read costs memory for a few deliveries. A subscriber that has gone keeps nothing beyond the sink's bounds.
"""
