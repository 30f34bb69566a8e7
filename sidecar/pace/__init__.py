"""How fast a dump may go beside the live changes (P3): no I/O, no clock.

sinks       what the merge worker tells of each sink: the sensor
"""
