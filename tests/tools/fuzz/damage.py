"""What is done to a message. All of it comes from the `Random` that is given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

TEXTS = (
    "", "x", "0", "-0", "+1", "00", "1.", ".5", "1e5", "1e400", "-1e-400", "inf", "-inf", "nan", "0x10", "1_000", " 1", "1 ", "١", "1",
    "true", "null", "0000-00-00", "0000-00-00 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "2024-02-30 12:00:00",
    "2025-11-02 01:30:00", "2025-03-09 02:30:00", "0999-01-01 00:00:00", "2024-01-01 24:00:00", "-838:59:59", "838:59:59.000000", "12:00",
    "-00:00:00", "9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "9" * 400, "65536",
    "123.4500000", "\\x00", "\\xff", "\\u00e9", "\\ud800", "\\U0010ffff",
    "\\Uffffffff", "\\U80000000", "\\", "\\q", "a\\", '\\"', '"', "\t", "\0", "\x7f",
    "\u20ac", "\u00ff", "\u0100", "\U0001f600", "AA==", "AA=A", "AAA", "AB==", "A===", "====", "AAAA==", "AA==AA==", "AA-_",
    "A A=", "[]", "{}", "[1,2]", "shop", "SHOP", "shop\0x", "changefeed_dump",
    "changefeed_dump_event", "customer", "INSERT", "UPDATE", "DELETE", "TIDB_WATERMARK",
    "CREATE", "bigint unsigned", "bigint", "varchar(10)", "enum('a')", "binary(3)", "timestamp(6)", "a" * 5000,
)  # fmt: skip

NUMBERS: tuple[int | float, ...] = (
    0, 1, 2, 3, -1, 4, 5, 13, 15, 16, 65, 245, 247, 249, 252, 253, 255, 256, 9999, 10000, 65535, 65536, 1 << 31, (1 << 63) - 1, 1 << 63,
    -(1 << 63), -(1 << 63) - 1, (1 << 64) - 1, 1 << 64, 10**30, 10**400, 1.0, 0.5, -0.0, 1e308, 1e-320, 3.5e38, 1e22,
)  # fmt: skip

JUNK: tuple[Any, ...] = (None, True, False, [], {}, [None], [{}], [[]], {"v": 1}, {"t": 1, "v": None}, {"O": None})

_NUMBER = re.compile(r"(?<=[:\[,])-?[0-9]+(?:\.[0-9]+)?(?=[,}\]])")
_HUGE = ("1e400", "-1e400", "1E5", "01", "1.", "-", "9" * 5000, "1e-5000", "NaN", "Infinity", "0.1e1", "-0", "1.0", "0x1", "1e", "--1")
_DEEP = ("[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 100_000, "[" * 90 + "]" * 90)
_ESCAPES = ("\\ud800", "\\udc00\\ud800", "\\ud83d\\ude00", "\\u0000", "\\q", "\\u12", "\\/", "\\", "\n", "\\u0041")


def damaged_bytes(random: Random, data: bytes, other: bytes) -> bytes:
    """As disks, networks and programs damage them; `other` is something of the same kind to splice from."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randrange(len(made) + 1)
        match random.randrange(9):
            case 0 if at < len(made):
                made[at] ^= 1 << random.randrange(8)
            case 1 if at < len(made):
                made[at] = random.choice((0, 1, 2, 8, 9, 34, 44, 58, 92, 0x7F, 0x80, 0xC3, 0xED, 0xFF))
            case 2:
                del made[at:]
            case 3:
                del made[at : at + random.randint(1, 8)]
            case 4:
                made[at:at] = random.randbytes(random.randint(1, 8))
            case 5:
                made[at:] = other[min(at, len(other)) :]
            case 6:
                end = at + random.randint(1, 40)
                made[end:end] = made[at:end]
            case 7:
                end = at + random.choice((2, 4, 8))
                made[at:end] = random.choice((b"\0", b"\xff", b"\x7f")) * len(made[at:end])
            case _:
                made[at : at + 10] = varint(random)
    return bytes(made)


def varint(random: Random) -> bytes:
    """Of any length, too long ones and endless ones with them."""
    number = random.choice((random.getrandbits(7), random.getrandbits(64), (1 << 64) - 1, 1 << 63, 0, 1 << 70))
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made) if random.randrange(4) else bytes(made[:-1]) + b"\x80" * random.randint(1, 10)


def damaged_text(random: Random, data: bytes) -> bytes:
    """The text of a JSON: other numbers, encodings, escapes, nesting, keys twice."""
    text = data.decode(errors="replace")
    match random.randrange(6):
        case 0:
            return _elsewhere(random, text, list(_NUMBER.finditer(text)), random.choice(_HUGE)).encode()
        case 1:
            return _elsewhere(random, text, list(_NUMBER.finditer(text)), random.choice(_DEEP)).encode()
        case 2:
            at = random.randrange(len(text) + 1)
            return (text[:at] + random.choice(_ESCAPES) + text[at:]).encode()
        case 3:
            encoding = random.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp037", "gbk"))
            return text.encode(encoding, errors="replace")
        case 4:
            members = list(re.finditer(r'"[^"\\]{0,40}":', text))
            if not members:
                return data
            name, place = random.choice(members), random.choice(members).start()
            value = json.dumps(random.choice((*JUNK, *NUMBERS[:8], *TEXTS[:8])))
            return (text[:place] + name[0] + value + "," + text[place:]).encode()
        case _:
            at = random.randrange(len(text) + 1)
            return (
                text[:at] + random.choice((" ", "\n\t ", "\u00a0", "//x\n", "{", "}", "[", "]", ",", ":", '"', "\0")) + text[at:]
            ).encode()


def _elsewhere(random: Random, text: str, value: list[re.Match[str]], put: str) -> str:
    if not value:
        return put
    one = random.choice(value)
    return text[: one.start()] + put + text[one.end() :]


def damage_value(random: Random, value: Any) -> Any:
    """A parsed JSON with one to three of its places gone, doubled, swapped or something else. It is changed in place."""
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return deepcopy(random.choice(JUNK))
        parent, key = random.choice(places)
        match random.randrange(8):
            case 0:
                del parent[key]
            case 1:
                other, there = random.choice(places)
                if there in other if isinstance(other, dict) else there < len(other):
                    parent[key] = deepcopy(other[there])
            case 2 if isinstance(parent, list):
                parent.insert(key, deepcopy(parent[key]))
            case 2 if isinstance(key, str):
                parent[random.choice((key.upper(), key + "x", *TEXTS))] = parent.pop(key)
            case 3 | 4:
                parent[key] = random.choice(TEXTS)
            case 5:
                parent[key] = random.choice(NUMBERS)
            case 6 if isinstance(parent[key], int) and not isinstance(parent[key], bool):
                parent[key] += random.choice((1, -1, 256, 1 << 32))
            case 6 if isinstance(parent[key], str) and parent[key]:
                at = random.randrange(len(parent[key]))
                parent[key] = parent[key][:at] + random.choice(TEXTS) + parent[key][at + random.randrange(2) :]
            case _:
                parent[key] = deepcopy(random.choice(JUNK))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def damaged_json(random: Random, data: bytes, other: bytes) -> bytes:
    """A JSON of a message in any of the three ways."""
    match random.randrange(8):
        case 0:
            return damaged_bytes(random, data, other)
        case 1 | 2:
            return damaged_text(random, data)
        case _:
            return json.dumps(damage_value(random, json.loads(data)), ensure_ascii=bool(random.randrange(2))).encode(errors="surrogatepass")
