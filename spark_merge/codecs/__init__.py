"""Between a protocol's bytes, canonical text, and what sinks write. Columns at a time; it knows neither the log's files nor windows.

values, zone   canonical text of each kind of column, and the zone that TIMESTAMPs are written in. Read these first
images         the images of rows: what a decoder gives
decode/        bytes to images and CHANGES;  encode/  CHANGES to what sinks write
protocols      the decoder and the encoder of each protocol (sidecar/shared/codecs/registry.py has the records)
"""
