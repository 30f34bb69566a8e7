"""debezium-avro as our Kafka sink writes it, read back: a message whose schema is in a registry is made into the payload that debezium.py
reads (spark_merge/sinks/kafka/registry_messages.py). DDLs and resolved marks are debezium's own messages.
"""

from __future__ import annotations

from sidecar.shared.codecs import debezium
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import ReadBackCodec


def codec(compression: Compression) -> ReadBackCodec:
    return debezium.codec(compression)
