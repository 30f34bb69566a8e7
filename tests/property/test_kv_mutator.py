"""A seeded mutator over rows of a real TiKV: nothing loops, nothing but MessageUnreadable comes out, both decoders agree."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.rowcodec.kv_row import decode_row
from tests.support.kv_recordings import Entry, kv_recording

SEEDS = 8
MUTANTS_A_SEED = 150


def mutant(random: Random, data: bytes, other: bytes) -> bytes:
    """Damage as disks, networks and programs make it; `other` is a row to splice from."""
    made, at = bytearray(data), random.randrange(len(data))
    match random.randrange(7):
        case 0:
            made[at] ^= 1 << random.randrange(8)
        case 1:
            made[at] = random.choice([0, 1, 2, 8, 9, 0x7F, 0x80, 0xFF])
        case 2:
            del made[at:]
        case 3:
            del made[at : at + random.randint(1, 8)]
        case 4:
            made[at:at] = random.randbytes(random.randint(1, 8))
        case 5:
            made[at:] = other[min(at, len(other)) :]
        case _:
            end = at + random.choice([2, 4, 8])
            made[at:end] = random.choice([b"\0", b"\xff"]) * len(made[at:end])
    return bytes(made)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", ["demo", "rowformats"])
def test_mutated_rows_are_values_or_refused_alike(name: str, seed: int) -> None:
    random = Random(seed)
    rows = [entry for entry in kv_recording(name).entries if entry.value or entry.old]
    refused = 0
    for entry in random.choices(rows, k=MUTANTS_A_SEED):
        value, other = entry.value or entry.old, random.choice(rows)
        key = entry.key if random.randrange(5) else mutant(random, entry.key, other.key)
        value = value if key != entry.key else mutant(random, value, other.value or other.old)
        refused += _outcomes_agree(entry, key, value)
    assert refused > MUTANTS_A_SEED / 3


def _outcomes_agree(entry: Entry, key: bytes, value: bytes) -> bool:
    """Whether the row is refused."""

    def columnar() -> list[str | None]:
        rows = decode_rows(entry.table, pa.array([key]), pa.array([value]))
        return [column[0].as_py() for column in rows.columns]

    slow, fast = _outcome(lambda: decode_row(entry.table, key, value)), _outcome(columnar)
    assert slow == fast, (key.hex(), value.hex())
    return isinstance(slow, str)


def _outcome(decode: Callable[[], list[str | None]]) -> list[str | None] | str:
    """The texts, or the text of the error."""
    try:
        return decode()
    except MessageUnreadable as error:
        return str(error)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_noise_is_refused(seed: int) -> None:
    random = Random(seed)
    tables = list(kv_recording("demo").tables.values())
    for _ in range(500):
        noise = random.choice([b"", b"\x80\0", b"\x80\1", b"\x08", b"\x80\2"]) + random.randbytes(random.randrange(40))
        table = random.choice(tables)
        key = b"t" + ((1 << 63) + min(table.physical_ids)).to_bytes(8, "big") + b"_r" + random.randbytes(random.choice([8, 9, 18, 30]))
        try:
            texts = decode_row(table, key, noise)
        except MessageUnreadable:
            continue
        assert len(texts) == len(table.columns)
