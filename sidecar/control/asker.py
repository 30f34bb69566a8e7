"""Who makes a call, for the history of operations: what the transport has proved, and the peer's address.

    certificate alice        mutual TLS: the common name of the client's certificate, else its first alternative name
    token 1f0c22ab           the sidecar's token, or the console's, by a fingerprint, which distinguishes tokens and does not reveal them
    not authenticated        neither is required, on loopback

A token is named only where the server requires one: else nobody has checked what a caller sends.
"""

from __future__ import annotations

from hashlib import pbkdf2_hmac
from urllib.parse import unquote

import grpc

from sidecar.shared.model.messages import Asker

FINGERPRINT_BYTES = 4
_ROUNDS = 100_000
"""So that nobody guesses a token that a person made up by trying words; once for a process."""
PROVED = "ticdc_dump_proved"
"""Of an authentication context that no transport has made: the name that the console has proved."""
_NAMES = ("x509_common_name", "x509_subject_alternative_name")


def token_name(token: str) -> str:
    """Of the token that every call must bring; empty for none."""
    if not token:
        return ""
    return f"token {pbkdf2_hmac('sha256', token.encode(), b'ticdc-dump history', _ROUNDS, FINGERPRINT_BYTES).hex()}"


def asker_of(context: grpc.ServicerContext, *, token: str) -> Asker:
    """`token`: as `token_name` has it. Texts are as the caller has them: the history bounds them."""
    proved = context.auth_context()
    names = [name.decode(errors="replace") for kind in _NAMES for name in proved.get(kind, ())]
    certificate = next(filter(None, names), "")
    if PROVED in proved:
        return Asker(proved[PROVED][0].decode() or "not authenticated", _address(context.peer()))
    return Asker(f"certificate {certificate}" if certificate else token or "not authenticated", _address(context.peer()))


def _address(peer: str) -> str:
    """`ipv4:10.0.0.7:41000`, `ipv6:%5B::1%5D:41000` without gRPC's word for the kind."""
    kind, colon, rest = peer.partition(":")
    return unquote(rest) if colon and kind in ("ipv4", "ipv6") else peer
