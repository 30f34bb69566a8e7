from __future__ import annotations

from sidecar.shared.log.storage.files import FileEntry, differing


def test_a_file_differs_by_any_of_its_fields() -> None:
    entry = FileEntry("a", 1, "t", 5)
    others = [entry._replace(size=2), entry._replace(tag="u"), entry._replace(modified_ms=6)]
    assert differing({"a": entry}, {"a": entry}) == ([], [])
    assert [differing({"a": entry}, {"a": other}) for other in others] == [([other], []) for other in others]


def test_what_is_only_before_is_gone_and_what_is_only_after_is_new() -> None:
    a, b = FileEntry("a", 1, "t", 5), FileEntry("b", 1, "t", 5)
    assert differing({"a": a}, {"b": b}) == ([b], ["a"])
