"""The indices behind the aliases: what is there, what is made, and what a table's schema asks of one.

- An index of ours says in its mapping's `_meta` which log it is of, and which columns its documents may have had: a field outlives its
  column there, and a later column of that name is another one.
- `dynamic: false`: a field comes from the table's schema alone. What people add (an analyzer, a field below a field) stays.
- `index.gc_deletes`: for so long the server knows that a document was deleted by a greater version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

from opensearchpy.exceptions import RequestError

from sidecar.shared.errors import SinkError
from sidecar.shared.log.identity import continues
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.sinks.kit.grouped import grouped
from spark_merge.sinks.opensearch.client import NOT_FOUND, OpenSearchSession, kind_of
from spark_merge.sinks.opensearch.fields import differs, problems
from spark_merge.sinks.opensearch.names import physical
from spark_merge.sinks.opensearch.position import EXISTS
from spark_merge.sinks.opensearch.uri import OpenSearchSettings

PATH_CHARS_MAX = 3000
"""Of names in one request: a server takes a line of 4096 bytes."""

FIELDS_MAX = 900
"""Fields that an index may have without a setting; the server's own limit is 1000."""

META = "ticdc_dump"
_UNITS_S = {"ms": 0.001, "micros": 0.000001, "nanos": 0.000000001, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class IndexThere:
    """`columns`: that its documents may have, of now or before. `log_id`: empty for one that somebody else has made. `source`: what is
    kept of a document otherwise than all of it."""

    name: str
    aliases: frozenset[str]
    fields: Mapping[str, Mapping[str, Any]]
    columns: frozenset[str]
    log_id: str
    gc_deletes: str
    durability: str
    source: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_json(cls, name: str, value: Mapping[str, Any]) -> IndexThere:
        mappings = value.get("mappings", {})
        meta = mappings.get("_meta", {}).get(META, {})
        settings = value.get("settings", {}).get("index", {})
        fields = mappings.get("properties", {})
        return cls(
            name,
            frozenset(value.get("aliases", {})),
            fields,
            frozenset(meta.get("columns", ())) | fields.keys(),
            meta.get("log", ""),
            settings.get("gc_deletes", "60s"),
            settings.get("translog", {}).get("durability", "request"),
            {**mappings.get("_source", {}), **settings.get("mapping", {}).get("source", {})},
        )


class Indices:
    def __init__(self, session: OpenSearchSession, settings: OpenSearchSettings, *, log_id: str) -> None:
        self.session, self.settings, self._log_id = session, settings, log_id

    @cached_property
    def unsigned_long(self) -> bool:
        """Whether the server has it: OpenSearch 2.8, Elasticsearch 7.10 but the one without its licence's parts."""
        version = self.session.asked("asking what it is", "GET", "/")["version"]
        number = tuple(int(part) for part in version["number"].split("-")[0].split(".")[:2])
        return number >= ((2, 8) if version.get("distribution") == "opensearch" else (7, 10)) and version.get("build_flavor") != "oss"

    def there(self, names: Iterable[str]) -> dict[str, IndexThere]:
        """By alias, those that lead to an index. Raises SinkError for one that leads to several, and for an index of that very name."""
        wanted = sorted(set(names))
        theres: dict[str, IndexThere] = {}
        for index in self._read(wanted):
            if index.name in wanted:
                raise SinkError(
                    f"{self.session.server}: {index.name} is an index itself, and rows go to an alias of that name",
                    hint=f"reindex it into {physical(index.name, 0)}, and make {index.name} an alias of that; or lead the table elsewhere"
                    " by routes= or index=",
                )
            for alias in index.aliases.intersection(wanted):
                other = theres.setdefault(alias, index)
                if other.name != index.name:
                    raise SinkError(
                        f"{self.session.server}: alias {alias} leads to {other.name} and to {index.name}, and rows can go to one of them",
                        hint="take the alias from the one that has not this table's rows",
                    )
        return theres

    def by_name(self, name: str) -> IndexThere | None:
        return next((index for index in self._read([name]) if index.name == name), None)

    def _read(self, names: Sequence[str]) -> Iterator[IndexThere]:
        for part in grouped((f"{quote(name, safe='')}," for name in names), bytes_max=PATH_CHARS_MAX):
            path = f"/{''.join(part)}".removesuffix(",")
            answered = self.session.asked(
                "looking at the indices",
                "GET",
                path,
                params={"ignore_unavailable": "true", "allow_no_indices": "true"},
                ignore=(NOT_FOUND,),
            )
            if "error" not in answered or "mappings" in answered["error"]:
                yield from (IndexThere.of_json(name, index) for name, index in answered.items())

    def of_this_log(self, index: IndexThere) -> bool:
        return bool(index.log_id) and continues(index.log_id, self._log_id)

    # ---- what a schema asks ------------------------------------------------------------------------------------------------

    def misfits(self, schema: TableSchema, index: IndexThere | None) -> Iterator[tuple[str, str]]:
        """What keeps the rows of `schema` from `index`, each with the way out; None: from one that is made. A field that is missing is
        added, and is no misfit."""
        yield from problems(schema)
        if index is None:
            return
        if index.log_id and not self.of_this_log(index):
            yield (
                f"index {index.name} has the rows of log {index.log_id}, this is log {self._log_id}",
                "give each changefeed indices of its own by index= or routes=; for a new log of the same one, delete it and dump again",
            )
        if index.durability == "async":
            yield (
                f"index {index.name} has index.translog.durability async: what is accepted may be lost when a node dies",
                "set it to request",
            )
        if not _keeps_all(index.source):
            yield (
                f"index {index.name} keeps less of a document than it gets: its _source is {dict(index.source)}",
                "make an index that keeps all of _source, reindex into it, and let the alias lead there",
            )
        for name, wanted in self._wanted(schema).items():
            if name in index.fields and differs(index.fields[name], wanted):
                yield (
                    f"field {name} of index {index.name} is {dict(index.fields[name])}, and {schema.name} asks for {wanted}",
                    "make an index with such a field, reindex into it, and let the alias lead there",
                )

    def fit(self, schema: TableSchema, index: IndexThere) -> None:
        """Adds fields that are missing. Raises SinkError for the first misfit."""
        for problem, way_out in self.misfits(schema, index):
            raise SinkError(problem, hint=way_out)
        missing = {name: field for name, field in self._wanted(schema).items() if name not in index.fields}
        columns = set(schema.column_names())
        if missing or not columns <= index.columns:
            body = {**self._meta(index.columns | columns), "properties": missing}
            self.session.asked(f"adding fields to {index.name}", "PUT", f"/{quote(index.name, safe='')}/_mapping", body)
        if _seconds(index.gc_deletes) < _seconds(self.settings.gc_deletes):
            settings = {"index": {"gc_deletes": self.settings.gc_deletes}}
            self.session.asked(f"setting gc_deletes of {index.name}", "PUT", f"/{quote(index.name, safe='')}/_settings", settings)

    def make(self, alias: str, schema: TableSchema, since: Seq | int, *, aliased: bool = True) -> str:
        """The index of the table from segment `since` on, its name; one that is there is taken. Raises SinkError."""
        for problem, way_out in self.misfits(schema, None):
            raise SinkError(problem, hint=way_out)
        name, fields = physical(alias, since), self._wanted(schema)
        body = {
            "settings": {"index": self._index_settings(fields)},
            "mappings": {"dynamic": False, **self._meta(schema.column_names()), "properties": fields},
            "aliases": {alias: {}} if aliased else {},
        }

        def create() -> None:
            try:
                self.session.call("PUT", f"/{quote(name, safe='')}", body)
            except RequestError as error:
                if kind_of(error) != EXISTS:
                    raise

        self.session.retried(create, doing=f"making index {name} for {schema.name}")
        made = self.by_name(name)
        if made is None or made.log_id != self._log_id or (aliased and alias not in made.aliases):
            raise SinkError(
                f"{self.session.server}: index {name} is there, and is not what this log makes for {schema.name}: {made}",
                hint="see whose it is, and delete it",
            )
        return name

    def remove(self, name: str) -> None:
        """It is gone when this returns, be it by another."""
        self.session.asked(f"deleting index {name}", "DELETE", f"/{quote(name, safe='')}", ignore=(NOT_FOUND,))

    def lead(self, actions: Sequence[Mapping[str, Any]], *, doing: str) -> None:
        """Aliases and indices in one step. Raises SinkError, also where one of the actions has nothing to act on: then none is done."""
        self.session.asked(doing, "POST", "/_aliases", {"actions": list(actions)})

    def _wanted(self, schema: TableSchema) -> dict[str, dict[str, Any]]:
        return self.settings.forms.properties(schema, unsigned_long=self.unsigned_long)

    def _meta(self, columns: Iterable[str]) -> dict[str, Any]:
        return {"_meta": {META: {"log": self._log_id, "columns": sorted(columns)}}}

    def _index_settings(self, fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        settings = self.settings
        index_settings: dict[str, Any] = {"gc_deletes": settings.gc_deletes}
        if settings.shards is not None:
            index_settings["number_of_shards"] = settings.shards
        if settings.replicas is not None:
            index_settings["number_of_replicas"] = settings.replicas
        count = sum(1 + len(field.get("fields", ())) for field in fields.values())
        if count > FIELDS_MAX:
            index_settings["mapping.total_fields.limit"] = 2 * count
        return index_settings


def _keeps_all(source: Mapping[str, Any]) -> bool:
    """Of each document. Otherwise values are gone, or made again from an index that may hold less."""
    parts = source.get("includes") or source.get("excludes")
    return source.get("enabled", True) and not parts and str(source.get("mode", "stored")).lower() == "stored"


def _seconds(duration: str) -> float:
    digits = duration.rstrip("abcdefghijklmnopqrstuvwxyz")
    return float(digits) * _UNITS_S.get(duration[len(digits) :], 1) if digits.lstrip("-").replace(".", "").isdecimal() else 0.0
