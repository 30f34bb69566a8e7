"""Protocols of TiCDC, message bytes to envelopes. Rows stay bytes: only commit_ts, table and delete or put are read here.

    contract        what a codec is            registry   one record for each of TiCDC's protocols; a changefeed's settings to its codec
    open_protocol, canal_json, simple, simple_avro        kv, binlog, csv   raw key-values, TiDB-Binlog and csv files, as our own
    debezium, debezium_avro, avro              what our own Kafka sink writes so, read back
    compression, refusals                      what several need     claim_file   rows that are larger than a message
    README.md       how to add a protocol

Pure: the standard library, msgspec, cramjam and fastavro; no I/O, no clock, no log. It must not know the changefeed's filter (ticdc/) nor
how a row's values are decoded (spark_merge/codecs/decode).
"""
