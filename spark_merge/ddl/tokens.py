"""The tokens of a DDL, of which none may be misread: what is no lexeme of TiDB's is refused."""

from __future__ import annotations

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.sql.lexer import SqlToken, tokens

FEATURES = frozenset(
    {"auto_rand", "auto_id_cache", "auto_rand_base", "clustered_index", "force_inc", "placement", "ttl", "global_index", "pre_split"}
    | {"resource_group"}
)
"""Of TiDB's features those whose words the grammar here has."""

REPORT = "carry it out at the target by hand and name its commit_ts in the sink's `ddl-done`; report this text"


def ddl_tokens(text: str) -> list[SqlToken]:
    """An `end` is the last. Raises UnsupportedDdl for what is no token."""
    in_text = list(tokens(text, features=FEATURES))
    for token in in_text:
        if token.kind == "invalid":
            raise UnsupportedDdl(f"the DDL {text!r} holds {text[token.at : token.at + 20]!r}, which no statement does", hint=REPORT)
    return in_text
