"""What a collation of the target takes two texts for: their weights, which the target returns (WEIGHT_STRING). Nobody else knows them all:
letters without case and accents, ligatures, signs that weigh nothing, characters that all weigh the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.session import MysqlSession

TEXTS_MAX = 50_000
"""That are remembered."""

TEXTS_A_QUERY = 500

_NAME = re.compile(r"[a-z0-9]+_[a-z0-9_]+")


class Weights:
    """conflicts.Weigh, by a session of its own."""

    def __init__(self, session: MysqlSession) -> None:
        self._session = session
        self._known: dict[tuple[str, str], str] = {}
        self._blank: dict[str, str] = {}

    def __call__(self, collation: str, texts: Sequence[str]) -> Mapping[str, str]:
        new = [text for text in texts if (collation, text) not in self._known]
        if len(self._known) + len(new) > TEXTS_MAX:
            self._known.clear()
            new = list(texts)
        if new and collation not in self._blank:
            self._blank[collation] = self._ask(collation, [" "])[0]
        for start in range(0, len(new), TEXTS_A_QUERY):
            part = new[start : start + TEXTS_A_QUERY]
            for text, weight in zip(part, self._ask(collation, part), strict=True):
                self._known[collation, text] = _unpadded(weight, self._blank[collation])
        return {text: self._known[collation, text] for text in texts}

    def _ask(self, collation: str, texts: Sequence[str]) -> Sequence[str]:
        assert _NAME.fullmatch(collation), f"{collation!r} is no collation's name"
        one = f"HEX(WEIGHT_STRING(CONVERT(%s USING {collation.partition('_')[0]}) COLLATE {collation}))"
        sql = f"SELECT {', '.join([one] * len(texts))}"
        row = carried_out(self._session, lambda: self._session.rows(sql, texts)[0], doing="asking for the weights of texts")
        return [weight or "" for weight in row]


def _unpadded(weight: str, blank: str) -> str:
    """Trailing signs that weigh as a space are none, as trailing spaces are."""
    while blank and weight.endswith(blank):
        weight = weight[: -len(blank)]
    return weight
