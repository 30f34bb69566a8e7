"""`kafka.server_tz` against what TiCDC really writes: TIMESTAMPs of rows in the feed beside the same rows in the source.

The feed has a TIMESTAMP in the zone of TiCDC's server, without an offset; the source returns it in UTC. For the newest change of a
row, whose row has not been changed since, their difference is that zone's offset at that moment.

- One row that differs by exactly what the configured zone says is proof enough; whole quarter hours that it does not explain
  are another zone. Any other difference is a row that was changed meanwhile, and says nothing.
- Zones that have the same offset at the moments of these rows cannot be distinguished, and are not.
- Without such a row nothing is guessed: skipped, with what to look up by hand.
- A zone that sets its clocks back has an hour twice, and the feed does not say which of both a TIMESTAMP is of: reported beforehand, for a
  row of that hour holds delivery up where `kafka.ambiguous` does not say what to take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.checks import TABLES, Tables
from sidecar.feeds.kafka.checks import KAFKA_S, MESSAGES
from sidecar.feeds.kafka.tail import Tail
from sidecar.preflight.source import patient
from sidecar.shared.config import KafkaSection, SourceSection
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.rows_file import ROWS_SCHEMA
from sidecar.shared.model.keyset import qualified, read_as
from sidecar.shared.model.nouns import Change, Rank, TableName
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.checks import Check, CheckFinding, Checking, CheckSkipped, Key, failed, listed, ok, warning

ROWS_MAX = 10
"""Looked up in the source: each takes a few statements."""
COLUMNS_MAX = 4
QUARTER = timedelta(minutes=15)
OFFSET_MAX = timedelta(hours=14)
ZERO = "0000-00-00"
TIMESTAMPS_FROM = datetime(1970, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=2 * 366)
"""A zone that changes its clocks does so every year."""
_COMMON = (
    "UTC", "Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo", "Asia/Seoul", "Asia/Kolkata", "Asia/Jakarta", "Asia/Dubai", "Europe/London",
    "Europe/Berlin", "Europe/Moscow", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Sao_Paulo",
    "Australia/Sydney", "Pacific/Auckland",
)  # fmt: skip
"""Where TiDB runs: the ones of the offset that rows show are named."""

BY_HAND = "compare kafka.server_tz with the TiCDC server's --tz (or tz in its configuration; default: its machine's zone)"

Pair = tuple[datetime, timedelta]
"""A moment in UTC by the source, and how much later the feed shows it."""


def server_tz(kafka: KafkaSection, source: SourceSection, tail: Tail, carried: Tables) -> Checking[None]:
    name = kafka.server_tz
    zone = ZoneInfo(name)
    has_any = any(column.kind == "timestamp" for schema in carried.values() for column in schema.columns)
    yield from hours_twice(zone, kafka.ambiguous, now=datetime.now(UTC), has_timestamps=has_any)
    pairs = [pair for row in _newest(tail, carried) for pair in _compared(source, *row)]
    if any(zone.utcoffset(at) is None for at, _ in pairs):
        raise CheckSkipped("the zone has no offset at these moments", setting="kafka.server_tz", hint=BY_HAND)
    yield judged(zone, pairs)


CHECK: Check[None] = Check(
    Key("server time zone"),
    lambda it: server_tz(it.config.kafka, it.config.source, it[MESSAGES], it[TABLES]),
    "kafka.server_tz",
    (MESSAGES, TABLES),
    KAFKA_S,
)
"""Of a Kafka feed, and here because it decodes rows as the merge does, which a feed must not know."""


def hours_twice(zone: ZoneInfo, ambiguous: str, *, now: datetime, has_timestamps: bool) -> Iterator[CheckFinding]:
    """None for a zone that never has an hour twice."""
    back = _set_back(zone, upto=now + AHEAD)
    if not back:
        return
    ahead = next((day for day in back if day > now), None)
    when = f"its clocks are set back next about {ahead:%Y-%m-%d}" if ahead else f"its clocks were set back until about {back[-1]:%Y-%m-%d}"
    if ambiguous != "refuse":
        what = f"{zone.key} has an hour twice ({when}): TIMESTAMPs of it are read as the {ambiguous} of both moments"
        yield warning(what, setting="kafka.ambiguous", hint="run the TiCDC server with --tz=UTC and set kafka.server_tz to it, and none is")
        return
    what = f"{zone.key} has an hour twice ({when}): a TIMESTAMP of that hour in any changed row blocks delivery"
    hint = 'run the TiCDC server with --tz=UTC and set this to UTC; or choose with kafka.ambiguous = "first" or "second"'
    tell = failed if ahead and has_timestamps else warning
    yield tell(what, setting="kafka.server_tz", hint=hint)


def _set_back(zone: ZoneInfo, *, upto: datetime) -> list[datetime]:
    """The days within which the zone's clocks were or will be set back, since there are TIMESTAMPs."""
    days = [TIMESTAMPS_FROM + timedelta(days=day) for day in range((upto - TIMESTAMPS_FROM).days)]
    offsets = [day.astimezone(zone).utcoffset() or timedelta(0) for day in days]
    return [day for day, before, after in zip(days[1:], offsets, offsets[1:], strict=False) if after < before]


def judged(zone: ZoneInfo, pairs: list[Pair]) -> CheckFinding:
    """Raises Skip where they say nothing."""
    possible = [(at, shift) for at, shift in pairs if abs(shift) <= OFFSET_MAX and shift % QUARTER == timedelta(0)]
    if not possible:
        why = "among the feed's newest messages there is no row with a TIMESTAMP that the source still has as it was"
        raise CheckSkipped(why, setting="kafka.server_tz", hint=BY_HAND)
    fit = sum(shift == at.astimezone(zone).utcoffset() for at, shift in possible)
    if fit:
        return ok(f"{zone.key}: {fit} TIMESTAMPs of the feed are those of the source")
    (shift, count), *_ = Counter(shift for _, shift in possible).most_common(1)
    at = next(at for at, of_pair in possible if of_pair == shift)
    likely = [name for name in _COMMON if at.astimezone(ZoneInfo(name)).utcoffset() == shift]
    what = f"{count} TIMESTAMPs of the feed are UTC{_offset(shift)}, and {zone.key} is UTC{_offset(at.astimezone(zone).utcoffset())}"
    hint = f"set it to the TiCDC server's --tz, likely {listed(likely) if likely else 'one of UTC' + _offset(shift)}"
    return failed(what, setting="kafka.server_tz", hint=hint)


def _offset(shift: timedelta | None) -> str:
    minutes = round((shift or timedelta(0)).total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _newest(tail: Tail, carried: Tables) -> Iterator[tuple[TableName, tuple[str, ...], dict[str, str]]]:
    """The newest version of rows: table, key, and the TIMESTAMPs as the feed has them."""
    seen: set[tuple[TableName, tuple[str, ...]]] = set()
    number = 0
    for change in sorted(tail.changes, key=lambda change: change.commit_ts, reverse=True):
        name = TableName(change.schema, change.table)
        schema = carried[name]
        if not schema.key:
            continue
        texts = _texts(tail.codec.name, carried, change)
        key = tuple(str(texts[column]) for column in schema.key)
        if (name, key) in seen:
            continue
        seen.add((name, key))
        times = {
            column.name: text
            for column in schema.columns
            if column.kind == "timestamp" and column.name not in schema.key and (text := texts[column.name]) and not text.startswith(ZERO)
        }
        if change.rank is Rank.PUT and times:
            yield name, key, dict(list(times.items())[:COLUMNS_MAX])
            number += 1
            if number == ROWS_MAX:
                return


def _texts(codec: str, carried: Tables, change: Change) -> dict[str, str | None]:
    """The row as canonical text, with timestamps as the feed shows them: read as UTC they are left as they are."""
    from spark_merge.codecs.decode.rows import decode  # it loads pyspark, without which all other checks do

    op = "delete" if change.rank is Rank.DELETE else "put"
    lane, position = change.lane, change.position
    values = [[0], [change.commit_ts], [op], [change.schema], [change.table], [codec], [change.key], [change.value], [lane], [position]]
    rows = pa.Table.from_arrays([pa.array(value, field.type) for value, field in zip(values, ROWS_SCHEMA, strict=True)], schema=ROWS_SCHEMA)
    rows = rows.append_column("seq", pa.nulls(1, pa.int64()))
    decoded = decode(rows, codec=codec, schemas=carried, server_tz="UTC").to_pylist()
    image = decoded[0]["after"] or decoded[-1]["after"] or decoded[0]["before"]
    names = carried[TableName(change.schema, change.table)].column_names()
    return dict(zip(names, image, strict=True))


def _compared(source: SourceSection, table: TableName, key: tuple[str, ...], times: dict[str, str]) -> Iterator[Pair]:
    section = patient(source)
    try:
        predicate = TidbSchemas(section).key_predicate(table, [key])
    except RefusedRequest:
        return  # no key that a SELECT can name (a float): another row may do
    columns = ", ".join(f"CAST({qualified(column)} AS CHAR)" for column in times)
    with closing(MysqlSession(Account.of(section), Role.READ_SOURCE)) as session:
        sql = f"SELECT {columns} FROM {read_as(table)} WHERE {predicate}"
        rows = carried_out(session, lambda: session.rows(sql), doing=f"reading a row of {table}")
    for row in rows:
        for there, here in zip(times.values(), row, strict=True):
            if here is not None and not str(here).startswith(ZERO) and there[19:] == str(here)[19:]:
                at = datetime.fromisoformat(str(here)[:19]).replace(tzinfo=UTC)
                yield at, datetime.fromisoformat(there[:19]).replace(tzinfo=UTC) - at
