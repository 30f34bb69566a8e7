"""The secret of the hashes: a file that each host has, named by `salt-file`. It never travels with a task, and is in no error.

Without it nobody can look a value up by hashing all e-mail addresses. A salt's identity is the HMAC of a fixed text, from which the salt
cannot be computed. Each task compares it, so no host hashes with another salt.
"""

from __future__ import annotations

import hmac

from sidecar.shared.errors import SinkError

SALT_BYTES_MIN, SALT_BYTES_MAX = 16, 64 << 10
_FIXED = b"ticdc-dump"


def read_salt(path: str) -> bytes:
    """Without line ends at its end. Raises SinkError for a file that cannot be read, is too short or too long."""
    try:
        with open(path, "rb") as file:
            salt = file.read(SALT_BYTES_MAX + 1).rstrip(b"\r\n")
    except (OSError, ValueError) as error:
        raise SinkError(f"salt-file {path} cannot be read: {error}", hint="make it a file for this user, on every host") from error
    if len(salt) > SALT_BYTES_MAX:
        raise SinkError(f"salt-file {path} has more than {SALT_BYTES_MAX} bytes", hint="name the file of the salt: openssl rand -hex 32")
    if len(salt) < SALT_BYTES_MIN:
        raise SinkError(
            f"salt-file {path} has fewer than {SALT_BYTES_MIN} bytes",
            hint="openssl rand -hex 32 makes one; keep a copy: with another one no value has the hash that it had",
        )
    return salt


def identity_of(salt: bytes) -> str:
    return hmac.digest(salt, _FIXED, "sha256").hex()


def hashed(salt: bytes, text: str) -> str:
    return hmac.digest(salt, text.encode(), "sha256").hex()
