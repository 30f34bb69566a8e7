"""etcd's messages and stubs out of the package etcd3 (0.12.0, its last), made fit for the protobuf that is installed.

The package's generated files (`etcdrpc/kv_pb2.py`, `auth_pb2.py`, `rpc_pb2.py`) are of a protobuf whose Python classes are gone:
importing them raises. What they say is good, for each holds its .proto file's descriptor as one bytes literal. So they are parsed and
not executed, the descriptors go into a pool of their own, where their names (`rpc.proto`) meet no others, and the modules that
`etcd3.etcdrpc` asks for are made from them. The stubs (`rpc_pb2_grpc.py`) work as they are.

tests/unit/adapters/test_etcd_messages.py fails when the package is another one than this was made for. It knows no etcd, and what the
messages are used for is the client's.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

from sidecar.shared.errors import ConfigError

GENERATED = ("kv", "auth", "rpc")
"""Each uses the ones before it."""


@cache
def etcd_messages() -> ModuleType:
    """The module `etcd3.etcdrpc`, with the messages and enums of all three files and the stubs. Raises ConfigError for a package that
    is not laid out like that."""
    pool = descriptor_pool.DescriptorPool()
    for name in GENERATED:
        pool.AddSerializedFile(_serialized(generated_folder() / f"{name}_pb2.py"))
        sys.modules[f"etcd3.etcdrpc.{name}_pb2"] = _module(pool.FindFileByName(f"{name}.proto"), f"etcd3.etcdrpc.{name}_pb2")
    return importlib.import_module("etcd3.etcdrpc")


def generated_folder() -> Path:
    """Where the package's generated files are. It is not imported."""
    package = importlib.util.find_spec("etcd3")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "etcdrpc"


def _serialized(path: Path) -> bytes:
    """`serialized_pb` of a generated file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb" and isinstance(node.value, ast.Call):
            return bytes(ast.literal_eval(node.value.args[0]).encode("latin1"))
    raise ConfigError(f"{path} is not of the etcd3 that this was made for", hint="install etcd3==0.12.0")


def _module(file: Any, name: str) -> ModuleType:
    module = ModuleType(name)
    for message in file.message_types_by_name.values():
        setattr(module, message.name, message_factory.GetMessageClass(message))
    for enum in file.enum_types_by_name.values():
        setattr(module, enum.name, enum_type_wrapper.EnumTypeWrapper(enum))
        vars(module).update({value.name: value.number for value in enum.values})
    return module
