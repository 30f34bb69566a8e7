"""A schema file: the columns of a table at a version, and the DDL that made it (pingcap/ticdc pkg/cloudstorage/table_definition.go).

A file without a query is no DDL: TiCDC writes it before the first rows of a table. Its version is the commit_ts of a DDL, or a table's
latest change; it says nothing of the rows' order, for after a restart rows can be below an older version with the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct, json

from sidecar.feeds.storage.names import FormFile
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs


class _Column(Struct, rename="pascal"):
    column_name: str


class _Definition(Struct, rename="pascal"):
    schema: str
    table: str = ""
    table_version: int = 0
    query: str = ""
    table_columns: list[_Column] | None = None


_decode = json.Decoder(_Definition).decode
DDL_TYPE = "QUERY"


@dataclass(frozen=True, slots=True)
class TableForm:
    """`columns`: all of them, virtual ones too. `query` empty: no DDL."""

    schema: str
    table: str
    version: CommitTs
    columns: tuple[str, ...]
    query: str


def table_form(data: bytes, file: FormFile) -> TableForm:
    """Raises MessageUnreadable, also where its version is not the one in its name."""
    try:
        definition = _decode(data)
        if definition.table_version != file.version:
            raise ValueError(f"its version is {definition.table_version}")
    except (ValueError, RecursionError) as error:  # msgspec's and those of UTF-8 are ValueErrors
        raise MessageUnreadable(
            f"{file.name} is no schema file of TiCDC's storage sink: {error}",
            hint="see that nothing but this changefeed writes into its folder; if so, report TiCDC's version and this file",
        ) from error
    columns = tuple(one.column_name for one in definition.table_columns or ())
    return TableForm(definition.schema, definition.table, file.version, columns, definition.query)


def ddl_message(form: TableForm) -> bytes:
    """The DDL as a message of canal-json."""
    head = {"database": form.schema, "table": form.table, "isDdl": True, "type": DDL_TYPE, "sql": form.query}
    return json.encode({**head, "data": None, "_tidb": {"commitTs": form.version}})
