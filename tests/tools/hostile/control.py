"""Area 1: the control service over TCP, and what its operator gives it: tokens, addresses, rules, predicates, keys, subscribers, floods.

The service is the real one, with a token; tables and filter are in memory, and the owner's pipeline is a thread with the real state
machine of a dump. After every flood a call is answered, and descriptors and threads come back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from sidecar.control.answers import REQUEST_BYTES_MAX
from sidecar.shared.config import ControlSection, Tls
from sidecar.shared.process.listening import check_listening, read_token
from tests.tools.hostile import predicates
from tests.tools.hostile.attempts import Area, Attempt, refuses, serves
from tests.tools.hostile.floods import SERVICE, floods
from tests.tools.hostile.subscribers import spool, subscribers
from tests.unit.control.serving import Owner, Serving
from ticdc_dump.v1 import control_pb2 as pb

TOKEN = "0123456789abcdef-T0KEN-0123456789abcdef"
RIGHT = ("authorization", f"Bearer {TOKEN}")
CALL_S = 60.0
FEED = pb.Changefeed(id="cf")
DUMP_ID = "a" * 16


class Target:
    """The service, as any client of its port sees it."""

    right = RIGHT

    def __init__(self, serving: Serving, owner: Owner) -> None:
        self.serving, self.owner = serving, owner
        self.channel = self.connected()

    def connected(self) -> grpc.Channel:
        """A connection of its own: gRPC holds one back that has ended many calls, and may."""
        options = [("grpc.max_send_message_length", 64 << 20), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.serving.address, options)

    def send(self, method: str, data: bytes = b"", metadata: Sequence[tuple[str, str | bytes]] = (RIGHT,)) -> bytes:
        """Raw bytes to a method, of which the first answer is awaited."""
        path = method if method.startswith("/") else SERVICE + method
        if method.endswith(("Watch", "Info")):
            (first, *_) = self.channel.unary_stream(path)(data, metadata=metadata, timeout=CALL_S)
            return bytes(first)
        result: bytes = self.channel.unary_unary(path)(data, metadata=metadata, timeout=CALL_S)
        return result

    def ask(self, method: str, request: Any) -> bytes:
        """As one who may."""
        return self.send(method, request.SerializeToString())

    def started(self, **given: Any) -> bytes:
        """A Start of the first dump, and what is left of it is taken away, so that the next one meets what this one met."""
        fields: dict[str, Any] = {"changefeed": FEED, "dump_id": DUMP_ID}
        dump = pb.StartRequest(**fields | given)
        try:
            return self.ask("Start", dump)
        finally:
            if self.owner.dump.progress is not None:
                self.owner.hold()
                self.owner.forget()
                self.owner.go()


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "token"
        file.write_text(TOKEN + "\n")
        control = ControlSection(listen="127.0.0.1:0", token_file=str(file))
        with Owner() as owner, Serving(owner.served(spool=spool(Path(folder))), control) as serving:
            target = Target(serving, owner)
            try:
                yield [
                    *headers(target),
                    *without_token(target),
                    *token_files(Path(folder)),
                    *addresses(),
                    *malformed(target),
                    *rules(target),
                    *where(target),
                    *values(target),
                    *subscribers(target),
                    *floods(target),
                ]
            finally:
                target.channel.close()


# ---- who asks --------------------------------------------------------------------------------------------------------------

HEADERS: tuple[tuple[tuple[str, str | bytes], ...], ...] = (
    (),
    (("authorization", ""),),
    (("authorization", " "),),
    (("authorization", "Bearer"),),
    (("authorization", "Bearer "),),
    (("authorization", TOKEN),),
    (("authorization", f"bearer {TOKEN}"),),
    (("authorization", f"BEARER {TOKEN}"),),
    (("authorization", f"Bearer  {TOKEN}"),),
    (("authorization", f"Bearer {TOKEN}x"),),
    (("authorization", f"Bearer {TOKEN[:-1]}"),),
    (("authorization", f"Bearer {TOKEN[1:]}"),),
    (("authorization", f"Bearer {TOKEN.upper()}"),),
    (("authorization", f"Bearer {TOKEN},Bearer {TOKEN}"),),
    (("authorization", f"Bearer {TOKEN} {TOKEN}"),),
    (("authorization", f"Basic {TOKEN}"),),
    (("authorization", "x" * 4000),),
    (("authorization", "Bearer " + "0" * len(TOKEN)),),
    (("x-authorization", f"Bearer {TOKEN}"),),
    (("token", TOKEN),),
    (("authorization-bin", f"Bearer {TOKEN}".encode()),),
    (("cookie", f"authorization=Bearer {TOKEN}"),),
    (RIGHT, RIGHT),
    (RIGHT, ("authorization", "Bearer x")),
    (("authorization", "Bearer x"), RIGHT),
)
ASK = pb.DumpRequest(changefeed=FEED).SerializeToString()


def headers(target: Target) -> Iterator[Attempt]:
    for number, given in enumerate(HEADERS):
        yield refuses(f"header {number} {given!r:.60}", partial(target.send, "Query", ASK, given))
    yield serves("the right header", lambda: target.send("Query", ASK))
    yield serves("the right header among many", lambda: target.send("Query", ASK, (RIGHT, *((f"x-{n}", "y") for n in range(50)))))


def without_token(target: Target) -> Iterator[Attempt]:
    methods = [method.name for method in pb.DESCRIPTOR.services_by_name["Control"].methods]
    paths = (
        *methods,
        "Nothing",
        "query",
        "Query/",
        "/ticdc_dump.v1.Nothing/Query",
        "/ticdc_dump.v2.Control/Query",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Healthy/Check",
        "/x/" + "y" * 3000,
        "/..//Control/Query",
    )
    for path in paths:
        yield refuses(f"no token: {path:.60}", partial(target.send, path, b"", ()))
    yield serves("health without a token", lambda: target.send("/grpc.health.v1.Health/Check", b"", ()))
    unknown = health_pb2.HealthCheckRequest(service="nothing").SerializeToString()
    yield refuses("health of nothing", lambda: target.send("/grpc.health.v1.Health/Check", unknown, ()))


# ---- tokens and addresses --------------------------------------------------------------------------------------------------

TOKEN_FILES: dict[str, bytes] = {
    "empty": b"",
    "a line end": b"\n",
    "many line ends": b"\r\n\n",
    "a blank": b" ",
    "one character": b"x",
    "fifteen characters": b"x" * 15,
    "a blank before": b" 0123456789abcdef",
    "a blank after": b"0123456789abcdef ",
    "two lines": b"0123456789abcdef\n0123456789abcdef",
    "a carriage return": b"01234567\r89abcdef",
    "a tab": b"01234567\t89abcdef",
    "a NUL": b"01234567\x0089abcdef",
    "an escape": b"01234567\x1b[31m89abcdef",
    "DEL": b"01234567\x7f89abcdef",
    "Latin-1": "0123456789äbcdef".encode("latin-1"),
    "UTF-8": "0123456789äbcdef".encode(),
    "UTF-16": "0123456789abcdef".encode("utf-16"),
    "a BOM": b"\xef\xbb\xbf0123456789abcdef",
    "no text": bytes(range(256)),
    "full-width digits": ("\uff10" * 16).encode(),
    "4,097 characters": b"x" * 4097,
    "8 KiB": b"x" * (8 << 10),
    "1 MiB": b"x" * (1 << 20),
}


def token_files(folder: Path) -> Iterator[Attempt]:
    def read(path: Path) -> str:
        return read_token("control", ControlSection(token_file=str(path)))

    for name, data in TOKEN_FILES.items():
        file = folder / f"token of {name}"
        file.write_bytes(data)
        yield refuses(f"token file: {name}", partial(read, file))
    yield refuses("token file: a folder", lambda: read(folder))
    yield refuses("token file: none", lambda: read(folder / "nothing"))
    yield refuses("token file: a path with NUL", lambda: read(Path("/tmp/x\0y")))
    for name, data in {"16 characters": b"x" * 16, "4,096 characters": b"x" * 4096, "signs": b"!#$%&'()*+,-./:;"}.items():
        file = folder / f"token of {name}"
        file.write_bytes(data)
        yield serves(f"token file: {name}", partial(read, file))


LOOPBACK = ("127.0.0.1:1", "127.255.255.254:1", "127.0.0.1:0", "127.0.0.1:65535", "[::1]:1", "localhost:1", "::1:1")
BEYOND = (
    "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "192.168.0.1:1", "169.254.1.1:1", "255.255.255.255:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1",
    "128.0.0.1:1", "126.255.255.255:1", "localhost.example:1", "127.0.0.1.example:1", "LOCALHOST.:1", "0:1", "127.1:1", "2130706433:1",
)  # fmt: skip
NONE = ("", ":", "1", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1: 1", "127.0.0.1:1e3")
PROTECTIONS = {
    "nothing": (Tls(), False),
    "a token": (Tls(), True),
    "TLS": (Tls(cert_file="c", key_file="k"), False),
    "half a TLS": (Tls(ca_file="a", cert_file="c"), True),
}


def addresses() -> Iterator[Attempt]:
    for protection, (tls, has_token) in PROTECTIONS.items():
        for listen in (*LOOPBACK, *BEYOND, *NONE):
            checked = _listens(listen, tls, has_token)
            fine = listen in LOOPBACK and protection != "half a TLS"
            name = f"listen {listen!r} with {protection}"
            yield serves(name, checked) if fine else refuses(name, checked)


def _listens(listen: str, tls: Tls, has_token: bool) -> Callable[[], object]:
    def checked() -> bool:
        check_listening("control", listen, tls, has_token=has_token)
        return True

    return checked


# ---- messages ----------------------------------------------------------------------------------------------------------------


def malformed(target: Target) -> Iterator[Attempt]:
    right = pb.StartRequest(changefeed=FEED, dump_id=DUMP_ID).SerializeToString()
    messages = {
        "0xff": b"\xff",
        "0xff 1000": b"\xff" * 1000,
        "a field that does not end": b"\x0a\xff",
        "a length beyond all": b"\x0a\xff\xff\xff\xff\x0f",
        "a varint of 11 bytes": b"\x08" + b"\xff" * 10 + b"\x01",
        "field 0": b"\x00\x00",
        "a group that does not end": b"\x0b" * 100,
        "10,000 groups": b"\x0b" * 10_000,
        "wire type 6": b"\x0e\x00",
        "wire type 7": b"\x0f\x00",
        "half a message": right[:-3],
        "text that is none": b"\x12\x02\xff\xfe",
        "16 MiB and a byte": b"\0" * (REQUEST_BYTES_MAX + 1),
        "32 MiB": b"\0" * (32 << 20),
    }
    for name, data in messages.items():
        yield refuses(f"Start: {name}", partial(target.send, "Start", data))
    for method in ("Query", "Stop", "Set"):
        yield refuses(f"{method}: nothing", partial(target.send, method, b""))
    compressed = target.channel.unary_unary(SERVICE + "Start")
    bomb = bytes(REQUEST_BYTES_MAX * 2)
    yield refuses(
        "Start: 32 MiB of zeros in 32 KiB", lambda: compressed(bomb, metadata=(RIGHT,), timeout=CALL_S, compression=grpc.Compression.Gzip)
    )


RULES: dict[str, list[str]] = {
    "15 MiB": ["*" * (15 << 20) + ".t"],
    "1 MiB": ["x" * (1 << 20) + ".t"],
    "513 characters": ["s." + "t" * 511],
    "10,001": ["shop.orders"] * 10_001,
    "300,000": ["a.b"] * 300_000,
    "1,001 wildcards": [f"shop.o{number}*" for number in range(1001)],
    "a regex of 8 MiB": [r"/[\pL\pN]{1000}[\pL\pN]{1000}/.t"],
    "repeats of repeats": ["/((a{30}){30}){30}/.t"],
    "nested groups": ["/" + "(" * 200 + ")" * 200 + "/.t"],
    "alternatives": ["/" + "a|" * 240 + "/.nothing"],
    "a regex for others than RE2": [r"/(a+)+\1/.t"],
    "lookahead": ["/(?=a)/.t"],
    "one byte": [r"/\C/.t"],
    "a file": ["@/etc/passwd"],
    "no table": ["shop"],
    "no end of quotes": ['"shop.t'],
    "a NUL": ["shop.\0"],
    "all excluded": ["!*.*"],
    "nothing matches": ["nowhere.*"],
    "hidden": ["hidden.*"],
    "1,000 wildcards that match nothing": [f"x{number}*.y?" for number in range(1000)],
}


def rules(target: Target) -> Iterator[Attempt]:
    for name, given in RULES.items():
        yield refuses(f"rules: {name}", partial(target.started, table_rules=given))


def where(target: Target) -> Iterator[Attempt]:
    for text in predicates.HOSTILE:
        requested = pb.TablePredicate(schema="shop", table="orders", predicate=text)
        yield refuses(f"where {text!r:.80}", partial(target.started, where=[requested]))
    for text in predicates.HARMLESS:
        requested = pb.TablePredicate(schema="shop", table="orders", predicate=text)
        yield serves(f"where {text!r:.80}", partial(target.started, where=[requested]))


IDS = (
    "",
    "x",
    "a" * 15,
    "a" * 17,
    "a" * 15 + "/",
    "../../../etc/pas",
    "a" * 15 + "\0",
    "a" * 15 + "\n",
    "\uff10" * 16,
    "ä" * 16,
    " " * 16,
    "a" * 9999,
)
FEEDS = ("", "other", "CF", "cf/", "../cf", "cf\0", "cf ", "ｃｆ", "c" * 9999)


def values(target: Target) -> Iterator[Attempt]:
    for dump_id in IDS:
        yield refuses(f"dump id {dump_id!r:.40}", partial(target.started, dump_id=dump_id))
        restart = pb.RestartRequest(changefeed=FEED, new_dump_id=dump_id)
        yield refuses(f"new dump id {dump_id!r:.40}", partial(target.ask, "Restart", restart))
    for name in FEEDS:
        yield refuses(f"changefeed {name!r:.40}", partial(target.ask, "Query", pb.DumpRequest(changefeed=pb.Changefeed(id=name))))
        other = pb.Changefeed(namespace=name or "x", id="cf")
        yield refuses(f"namespace {name!r:.40}", partial(target.ask, "Stop", pb.DumpRequest(changefeed=other)))
    options: dict[str, dict[str, Any]] = {
        "65 readers": {"readers": 65},
        "4 billion readers": {"readers": (1 << 32) - 1},
        "a bound of NaN": {"delivery_bound_seconds": float("nan")},
        "a bound of infinity": {"delivery_bound_seconds": float("inf")},
        "a bound below 0": {"delivery_bound_seconds": -1.0},
        "a bound of a year": {"delivery_bound_seconds": 31_536_000.0},
    }
    for name, given in options.items():
        yield refuses(name, partial(target.started, **given))
        settings = pb.SetRequest(changefeed=FEED, settings=pb.DumpSettings(**given))
        yield refuses(f"set {name}", partial(target.ask, "Set", settings))
    yield refuses("brackets 99", lambda: target.started(brackets=99))
    for name, keys in _keys().items():
        yield refuses(f"keys: {name}", partial(target.started, keys=keys))


def _keys() -> dict[str, list[pb.TableKeys]]:
    one = pb.Key(values=["1"])
    orders = pb.TableKeys(schema="shop", table="orders", keys=[one])
    return {
        "twice": [orders, orders],
        "of no table": [pb.TableKeys(schema="shop", table="nothing", keys=[one])],
        "of a hidden table": [pb.TableKeys(schema="hidden", table="secret", keys=[one])],
        "of mysql": [pb.TableKeys(schema="mysql", table="user", keys=[one])],
        "of two columns": [pb.TableKeys(schema="shop", table="orders", keys=[pb.Key(values=["1", "2"])])],
        "of no column": [pb.TableKeys(schema="shop", table="orders", keys=[pb.Key()])],
    }


AREA = Area("control", 330, opened)
