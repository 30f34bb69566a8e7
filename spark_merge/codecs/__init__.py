"""Between a protocol's bytes, canonical text, and what sinks write. Columns at a time; it knows neither the log's files nor windows.

The canonical text of each kind of column, and key-values by columns, are in shared/columns. Read that first.

images         the images of rows: what a decoder gives
decode/        bytes to images and CHANGES;  encode/  CHANGES to what sinks write
protocols      the decoder and the encoder of each protocol (sidecar/shared/codecs/registry.py has the records)
"""
