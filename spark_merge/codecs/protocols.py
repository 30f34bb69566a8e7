"""The decoder of each of TiCDC's protocols that carry a dump, and the encoder of what is written (sidecar/shared/codecs/registry.py).

They are the modules of decode/ and encode/ with the same name as the codec's; decode/csv.py is a decoder's without a protocol. An encoder's
module is imported when it is used first: it loads polars, which takes 0.2 s, and most tasks only decode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import pyarrow as pa

from sidecar.shared.codecs.registry import CARRIERS, WRITTEN
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.messages import Architecture, Encoder, SchemaIds
from spark_merge.codecs.images import Cells


class DecoderModule(Protocol):
    """`spark_merge/codecs/decode/NAME.py`."""

    def cells(self, values: Sequence[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
        """The images of rows of one table, from `Change.value` of each. `whole` False: columns that the schema does not have are passed
        over. Raises RowUnusable."""

    def texts(self, cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:
        """Those cells of columns like this one, whatever its name, as canonical texts. Raises UnfitValue."""


class ReadBackDecoderModule(Protocol):
    """`spark_merge/codecs/decode/NAME.py` of a protocol that only we write so."""

    def decoder(self, options: Mapping[str, str], *, redefined: bool) -> DecoderModule:
        """`options` as of the encoder: they say what a message does not. `redefined`: rows are from before a statement that gave a column
        another type."""

    def replaced_dates(self, options: Mapping[str, str], schema: TableSchema) -> Sequence[tuple[str, str | None]]:
        """Of the columns in which a date that no calendar has is written as another value: the canonical text of that one."""


class EncoderModule(Protocol):
    """`spark_merge/codecs/encode/NAME.py`."""

    def encoder(self, *, architecture: Architecture, options: Mapping[str, str]) -> Encoder:
        """`options` under TiCDC's names. Raises ConfigError for one, named, that cannot be written."""


class SentEncoderModule(EncoderModule, Protocol):
    """That of a protocol whose messages a log has."""

    def as_sent(self, keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Key and value of one message for each row, from the row's `Change.key` and `Change.value` in the log."""


class RegistryEncoderModule(Protocol):
    """The same of a protocol whose schemas are in a registry."""

    def encoder(self, *, architecture: Architecture, options: Mapping[str, str], schema_ids: SchemaIds) -> Encoder:
        """As of EncoderModule."""


def decoder_module(protocol: str) -> DecoderModule:
    """Of one of CARRIERS, by its name."""
    return cast(DecoderModule, import_module(f"spark_merge.codecs.decode.{CARRIERS[protocol].module_name}"))


def written_decoder(protocol: str, options: Mapping[str, str], *, redefined: bool) -> DecoderModule:
    """Of rows that `encoder` has written in one of WRITTEN with these `options`. `redefined` as of ReadBackDecoderModule."""
    return decoder_module(protocol) if protocol in CARRIERS else _read_back(protocol).decoder(options, redefined=redefined)


def replaced_dates(protocol: str, options: Mapping[str, str], schema: TableSchema) -> Sequence[tuple[str, str | None]]:
    """As of ReadBackDecoderModule; none in one of CARRIERS."""
    return () if protocol in CARRIERS else _read_back(protocol).replaced_dates(options, schema)


def _read_back(protocol: str) -> ReadBackDecoderModule:
    return cast(ReadBackDecoderModule, import_module(f"spark_merge.codecs.decode.{WRITTEN[protocol].module_name}"))


def encoder_module(protocol: str) -> SentEncoderModule:
    """Of one of WRITTEN that is one of CARRIERS too, by its name."""
    return cast(SentEncoderModule, import_module(f"spark_merge.codecs.encode.{CARRIERS[protocol].module_name}"))


def encoder(protocol: str, *, architecture: Architecture, options: Mapping[str, str], schema_ids: SchemaIds | None = None) -> Encoder:
    """`schema_ids`: of a protocol whose schemas are in a registry. Raises ConfigError for a protocol or an option's value that cannot be
    written."""
    if protocol not in WRITTEN:
        raise ConfigError(f"rows cannot be written in protocol {protocol!r}", hint=f"set protocol to one of {', '.join(WRITTEN)}")
    module = import_module(f"spark_merge.codecs.encode.{WRITTEN[protocol].module_name}")
    if not WRITTEN[protocol].by_registry:
        return cast(EncoderModule, module).encoder(architecture=architecture, options=options)
    assert schema_ids is not None, f"rows of {protocol} are not written without a registry"
    return cast(RegistryEncoderModule, module).encoder(architecture=architecture, options=options, schema_ids=schema_ids)
