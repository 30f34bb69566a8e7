"""`make stubs`: generate the gRPC stubs again and fail if what is committed differs; `--write` commits them to the tree."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).parents[2] / "proto"
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def generate(into: Path) -> dict[str, str]:
    """Every stub's text by its path relative to proto/."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    if not sources:
        raise SystemExit(f"no .proto file below {PROTO}")
    outputs = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{PROTO}", *outputs, *sources]):
        raise SystemExit("protoc failed")
    return {str(path.relative_to(into)): path.read_text() for path in into.rglob("*") if path.name.endswith(SUFFIXES)}


def main(*, write: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        stubs = generate(Path(folder))
    if write:
        for name, text in stubs.items():
            (PROTO / name).write_text(text)
        return 0
    committed = {str(path.relative_to(PROTO)): path.read_text() for path in PROTO.rglob("*") if path.name.endswith(SUFFIXES)}
    stale = sorted(name for name in stubs.keys() | committed.keys() if stubs.get(name) != committed.get(name))
    for name in stale:
        print(f"proto/{name} is not what its .proto gives: python -m tests.support.stubs --write", file=sys.stderr)  # noqa: T201  # a command
    return bool(stale)


if __name__ == "__main__":
    raise SystemExit(main(write="--write" in sys.argv[1:]))
