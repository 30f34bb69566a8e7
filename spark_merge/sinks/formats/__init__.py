"""One file for each format in which outputs have rows: how rows are written in it, and below that its inverse.

    json_lines     JSON lines                              files/, http/
    csv_lines      csv as TiCDC's storage sink writes it   storage/
    messages       a changefeed's own messages: lines of a file (storage/), and read back those of kafka/ too
    parquet        Parquet with all versions of rows       files/, delta/, iceberg/;  parquet_rows  columns of a file, keys, for all lakes
    file_formats   which of them a file of files/ has

Writing is by columns: a block of canonical text (codecs/encode/block.py) to bytes. Reading back gives canonical text in the present columns
of the table, each piece of rows with its versions (spark_merge/port/readable.py).
"""
