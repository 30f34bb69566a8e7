"""Protocols of TiCDC, message bytes to envelopes. `contract.py` says what a codec is; each other file is one protocol or a part that
several need (`compression.py`, `refusals.py`); `registry.py` chooses.

Pure: the standard library, msgspec and cramjam; no I/O, no clock, no log.
"""
