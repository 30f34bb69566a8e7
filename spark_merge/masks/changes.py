"""Schema changes that a view of masked columns cannot follow. Each stops the sink before anything of the batch is written.

- A column that gets another mask by its new name, or by its table's: the rows that the target has keep what they have.
- A masked column that is gone while one that is not masked has come, where no statement says what became of it: it may be the same one.
- Two tables that exchange rows, and whose columns have not the same masks.
- A hashed column whose values get another text: TiDB sends no change of each, and the hashes of the old texts would stay.
- At a target that carries out TiDB's own statements, a new column whose existing rows get another value than the constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, TableSchema
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.ddl.effects import TableFate, effects
from spark_merge.masks.rules import ColumnMask, ColumnRules, MaskKind
from spark_merge.port.contract import Head

ANOTHER_OUTPUT = "empty the target or take a new one, give the sink another name=, and dump again"


def check_changes(head: Head, rules: ColumnRules, *, statements: bool, done: Collection[CommitTs]) -> None:
    """`statements`: the target carries out TiDB's own, but those of `done`. Raises SinkError, and ConfigError as `ColumnRules.of`."""
    tables = list(effects(head))
    _check_exchange(head, [one.after for one in tables if one.fate is TableFate.EXCHANGED and one.after is not None], rules, statements)
    for effect in tables:
        before, after = effect.before, effect.after
        if before is None or after is None:
            continue
        old, new = rules.of(before), rules.of(after)
        if not old and not new:
            continue
        if effect.record is None or effect.problem is not None or not effect.record.query:
            _check_unsaid(head, before, after, old, new)
        for one in effect.columns:
            _check_mask(head, before, one, old, new)
            mask = new.get(one.column.name)
            if statements and one.before is None and mask is not None and head.upto_ts not in done:
                _check_existing(head, after, one, mask)


def _check_exchange(head: Head, tables: Sequence[TableSchema], rules: ColumnRules, statements: bool) -> None:
    """The other table may be one that the changefeed does not have, and a target of statements does."""
    of_each = [{name: (mask.kind, mask.text) for name, mask in rules.of(one).items()} for one in tables]
    of_each += [{}] if statements and len(tables) == 1 else []
    if any(one != of_each[0] for one in of_each[1:]):
        names = " and ".join(str(one.name) for one in tables)
        raise _stopped(head, f"{names} exchange rows by it, and their columns have other rules", "give both tables the same rules")


def _check_unsaid(
    head: Head, before: TableSchema, after: TableSchema, old: Mapping[str, ColumnMask], new: Mapping[str, ColumnMask]
) -> None:
    gone = sorted(name for name in old if name not in after.column_names())
    came = sorted(set(after.column_names()).difference(before.column_names(), new))
    if gone and came:
        what = f"masked {', '.join(gone)} of {before.name} is gone by it, and {', '.join(came)} has come, to which no rule applies"
        raise _stopped(head, f"{what}: no statement says whether it is the same", "let a rule match both names")


def _check_mask(head: Head, before: TableSchema, one: ColumnEffect, old: Mapping[str, ColumnMask], new: Mapping[str, ColumnMask]) -> None:
    if one.before is None:
        return
    was, now = old.get(one.before.name), new.get(one.column.name)
    place = f"column {one.before.name} of {before.name}"
    if was is not now and (was is None or not was.makes_the_same(now)):
        rules = " and ".join("no rule" if mask is None else mask.shown for mask in (was, now))
        raise _stopped(head, f"{place} gets another column rule by it: {rules}", "let one rule match both names")
    if was is not None and was.kind is MaskKind.HASH and not _keeps_text(one):
        raise _stopped(head, f"{was.shown}: {place} has other texts after it, and the target the hashes of the earlier ones", "")


def _keeps_text(one: ColumnEffect) -> bool:
    """A year that becomes an integer loses its zeros."""
    assert one.before is not None, "an added column has no values from before"
    same = one.before.kind == one.column.kind or one.before.kind != "year"
    return same and one.conversion in (Conversion.UNCHANGED, Conversion.TEXT)


def _check_existing(head: Head, after: TableSchema, one: ColumnEffect, mask: ColumnMask) -> None:
    if not one.unknown and one.existing == mask.text:
        return
    raise SinkError(
        f"{_ddl(head)}: rows of {after.name} that were there have {one.unknown or repr(one.existing)} in the new column {one.column.name},"
        f" and {mask.shown} says {'NULL' if mask.text is None else repr(mask.text)}",
        hint=f"carry it out at the target by hand, with this value for all rows, and add ddl-done={head.upto_ts} to the sink's URI",
    )


def _stopped(head: Head, why: str, hint: str) -> SinkError:
    return SinkError(f"{_ddl(head)}: {why}", hint=f"{ANOTHER_OUTPUT}{hint and '; '}{hint}")


def _ddl(head: Head) -> str:
    return f"segment {head.seq}, the DDL at commit_ts {head.upto_ts}"
