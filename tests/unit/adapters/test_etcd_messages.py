"""The messages out of etcd3: of the package that they were made fit from, and with what the client uses of them."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sidecar.adapters.etcd import client, messages
from sidecar.adapters.etcd.messages import GENERATED, etcd_messages, generated_folder
from sidecar.shared.errors import ConfigError

DIGESTS = {
    "__init__.py": "ac077d9b15ca592320eee9b49a1a2cb994b6200e0d7138251be406368024ed89",
    "auth_pb2.py": "4afd4c95f25b9bc152f3366a403eddf2308b1551b521c1751faade2a06b353f7",
    "kv_pb2.py": "cfe0010053f6ea8a136f21b5709c32da42166c94deaee9a8a29bc6f249cb3b96",
    "rpc_pb2.py": "a8b858e78c946ecb1d149eff0fca422af6c2195b54a76eb57189673af726c506",
    "rpc_pb2_grpc.py": "23002824f904a91fe690903d394c7e2907972e7da1547755e6e6a3b3cded80cd",
}
FIELDS = {
    "RangeRequest": {"key", "range_end", "keys_only"},
    "RangeResponse": {"kvs"},
    "PutRequest": {"key", "value", "lease"},
    "DeleteRangeRequest": {"key", "range_end"},
    "Compare": {"key", "result", "target", "create_revision", "mod_revision"},
    "RequestOp": {"request_range", "request_put", "request_delete_range"},
    "ResponseOp": {"response_range"},
    "TxnRequest": {"compare", "success", "failure"},
    "TxnResponse": {"header", "succeeded", "responses"},
    "ResponseHeader": {"revision"},
    "KeyValue": {"key", "value", "create_revision", "mod_revision", "lease"},
    "LeaseGrantRequest": {"TTL"},
    "LeaseGrantResponse": {"ID", "TTL"},
    "LeaseKeepAliveRequest": {"ID"},
    "LeaseKeepAliveResponse": {"ID", "TTL"},
    "LeaseRevokeRequest": {"ID"},
    "MemberListRequest": set(),
    "MemberListResponse": {"members"},
    "Member": {"clientURLs"},
    "AuthenticateRequest": {"name", "password"},
    "AuthenticateResponse": {"token"},
}
"""What the client uses of each message."""


def test_the_package_is_the_one_that_this_was_made_for() -> None:
    assert version("etcd3") == "0.12.0"
    assert {name: hashlib.sha256((generated_folder() / name).read_bytes()).hexdigest() for name in DIGESTS} == DIGESTS


@pytest.mark.parametrize("name", FIELDS)
def test_a_message_has_the_fields_that_the_client_uses(name: str) -> None:
    result = getattr(etcd_messages(), name, None) or getattr(sys.modules["etcd3.etcdrpc.kv_pb2"], name)
    assert set(result.DESCRIPTOR.fields_by_name.keys()) >= FIELDS[name]


def test_no_message_is_used_that_is_not_reported_here() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(client)))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self._rpc"
    }
    assert used
    assert used <= FIELDS.keys()


@pytest.mark.parametrize("stub", ["KVStub", "LeaseStub", "AuthStub"])
def test_the_stubs_are_there(stub: str) -> None:
    assert isinstance(getattr(etcd_messages(), stub), type)


def test_they_work_with_the_protobuf_that_is_installed() -> None:
    rpc = etcd_messages()
    request = rpc.TxnRequest(compare=[rpc.Compare(key=b"k", target=rpc.Compare.MOD, mod_revision=7)])
    assert rpc.TxnRequest.FromString(request.SerializeToString()) == request
    assert rpc.AlarmType.Value("NOSPACE") == rpc.NOSPACE


def test_a_generated_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kv_pb2.py").write_text("DESCRIPTOR = pool.AddSerializedFile(b'')\n")
    with pytest.raises(ConfigError, match=r"etcd3==0\.12\.0"):
        messages._serialized(tmp_path / "kv_pb2.py")


def test_all_generated_files_are_known() -> None:
    assert {f"{name}_pb2.py" for name in GENERATED} == {path.name for path in generated_folder().glob("*_pb2.py")}
