"""The secret of hashes: from a file, long enough, and in no error."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from spark_merge.masks.salt import SALT_BYTES_MIN, hashed, identity_of, read_salt


def test_a_hash_is_that_of_any_other_program(tmp_path: Path) -> None:
    (tmp_path / "salt").write_bytes(b"\x00not a text \xff.....\r\n")
    salt = read_salt(str(tmp_path / "salt"))
    assert salt == b"\x00not a text \xff....."
    assert hashed(salt, "jürgen@x") == hmac.new(salt, "jürgen@x".encode(), hashlib.sha256).hexdigest()
    assert len(hashed(salt, "")) == 64


def test_a_salt_that_is_absent_or_short_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"salt-file .*absent cannot be read"):
        read_salt(str(tmp_path / "absent"))
    (tmp_path / "short").write_bytes(b"x" * (SALT_BYTES_MIN - 1) + b"\n")
    with pytest.raises(SinkError, match="fewer than 16 bytes") as refused:
        read_salt(str(tmp_path / "short"))
    assert "xxx" not in str(refused.value)


def test_a_file_that_never_ends_is_no_salt() -> None:
    with pytest.raises(SinkError, match="has more than 65536 bytes"):
        read_salt("/dev/zero")


def test_two_salts_have_two_identities() -> None:
    assert identity_of(b"a" * 16) != identity_of(b"b" * 16)
