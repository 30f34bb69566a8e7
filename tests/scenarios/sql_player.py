"""What a corpus of SQL text may say, a line each: any text. `␊`, `␋` and the other pictures of control characters stand for these.

What comes out: its tokens, a line for each run of one kind, with what a token means where its text does not say it, and in which comment
TiDB reads it; then why a DDL may not hold it. Below `NO_BACKSLASH_ESCAPES:` the tokens of such a session, where they
are others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.sql.lexer import SqlToken, tokens
from spark_merge.ddl.tokens import FEATURES, ddl_tokens

_PICTURES = {0x2400 + char: char for char in range(32)}
_SHOWN = {char: picture for picture, char in _PICTURES.items()}


class SqlPlayer:
    def play(self, line: str) -> list[str]:
        text = line.translate(_PICTURES)
        results, other = list(_reported(text, backslashes=True)), list(_reported(text, backslashes=False))
        if other != results:
            results += ["NO_BACKSLASH_ESCAPES:", *(f"  {one}" for one in other)]
        try:
            ddl_tokens(text)
        except UnsupportedDdl as error:
            results.append(f"refused: {error.message.translate(_SHOWN)}")
        return results or ["nothing"]


def _reported(text: str, *, backslashes: bool) -> Iterator[str]:
    runs = groupby(tokens(text, features=FEATURES, backslashes=backslashes), lambda token: (token.kind, token.comment))
    for (kind, comment), run in runs:
        if kind != "end":
            yield f"{kind:8} {'   '.join(map(_shown, run))}".translate(_SHOWN) + f"   in {comment} */" * bool(comment)


def _shown(token: SqlToken) -> str:
    intended = {"word": token.text.upper(), "string": token.text[1:-1], "name": token.text[1:-1]}.get(token.kind, token.text)
    return token.text if token.value == intended else f"{token.text} = {token.value}"
