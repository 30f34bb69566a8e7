"""The files that TiCDC's storage sink writes, on a disk or in a bucket.

names     what TiCDC calls them                       table_form    a schema file: a table's columns, or a DDL
listing   what has come since the last listing        unread        which files are to be read, and what is missing
csv_rows  the rows of a csv file, as messages         reading       looks for what is new, and makes messages of it
feed      the Feed                                    make, checks  what a term and the preflight need
"""
