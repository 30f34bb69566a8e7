"""Each sink as a target of recorded streams (tests/integration/test_sink_recordings.py): how it is opened, how it is read back, what it
promises besides. One file per sink; `target` is what they have in common."""
