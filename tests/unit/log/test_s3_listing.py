from __future__ import annotations

import random
from bisect import bisect_right
from pathlib import Path
from threading import Barrier, Lock
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

import pytest

from sidecar.shared.log.storage import Changes, Known, Refused, Unreachable, s3_listing
from sidecar.shared.log.storage.s3_listing import RANGES_AT_ONCE_MAX, list_changes, read_page
from tests.support.eventually import PATIENCE_S

AWS = "http://s3.amazonaws.com/doc/2006-03-01/"
GCS = "http://doc.s3.amazonaws.com/2006-03-01"


class Pages:
    """A bucket of `keys`, as S3 lists it by pages of `page_keys`."""

    prefix = "feed/x y/"

    def __init__(self, *names: str, page_keys: int = 1000) -> None:
        self.tags = dict.fromkeys(names, "1")
        self.page_keys = page_keys
        self.asked: list[tuple[str, str]] = []
        self.known: Known | None = None
        self._lock = Lock()

    def ask(self, after: str, token: str) -> bytes:
        with self._lock:
            self.asked.append((after, token))
        keys = sorted(self.prefix + name for name in self.tags)
        start = int(token) if token else bisect_right(keys, after)
        page = keys[start : start + self.page_keys]
        return body(
            {key: self.tags[key.removeprefix(self.prefix)] for key in page},
            token=str(start + len(page)) if start + len(page) < len(keys) else "",
        )

    def changes(self) -> Changes:
        self.asked.clear()
        result = list_changes(self.ask, self.prefix, self.known)
        self.known = result.known
        return result

    def named(self) -> tuple[list[str], list[str]]:
        now, gone, _ = self.changes()
        return sorted(entry.name for entry in now), sorted(gone)


def body(tags: dict[str, str], *, token: str = "", space: str = AWS) -> bytes:
    contents = "".join(
        f"<Contents><Key>{escape(quote_plus(key, safe='/'))}</Key><LastModified>2026-11-29T10:00:00.123Z</LastModified>"
        f"<ETag>&quot;{tag}&quot;</ETag><Size>{len(tag)}</Size><Owner><ID>1</ID></Owner></Contents>"
        for key, tag in tags.items()
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f'<ListBucketResult xmlns="{space}"><EncodingType>url</EncodingType>{contents}{more}</ListBucketResult>'.encode()


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_listing, "RANGE_KEYS", 9)


def names(count: int) -> list[str]:
    return [f"shop/t{number:04}/CDC1" for number in range(count)]


# ---- a page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [AWS, GCS])
def test_a_page_of_any_namespace_is_read(space: str) -> None:
    page = read_page(body({"p/a+b %\n": "12", "p/ü&/c": "", "p/x/": "1", "p/": "1"}, space=space), "p/")
    assert page.files == [("a+b %\n", 2, "12", 1795946400123), ("ü&/c", 0, "", 1795946400123)]
    assert page.keys == ["a+b %\n", "ü&/c", "x/", ""]
    assert page.token == ""


def test_names_that_are_not_encoded_are_taken_as_they_are() -> None:
    text = b"<ListBucketResult><Contents><Key>p/a%20b+c</Key><LastModified>2026-11-29T10:00:00Z</LastModified><ETag>x</ETag><Size>1</Size>"
    page = read_page(text + b"</Contents></ListBucketResult>", "p/")
    assert page.files == [("a%20b+c", 1, "x", 1795946400000)]


def test_a_page_that_is_cut_can_be_read_again() -> None:
    with pytest.raises(Unreachable, match="not whole"):
        read_page(body({"a": "1"})[:-20], "")


def test_a_page_that_has_more_and_no_token_is_refused() -> None:
    with pytest.raises(Refused, match="no token"):
        read_page(b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "")


# ---- ranges ---------------------------------------------------------------------------------------------------------


def test_a_known_listing_is_read_by_ranges_of_one_request_each() -> None:
    pages = Pages(*names(90), page_keys=10)
    assert pages.named() == (names(90), [])
    assert len(pages.asked) == 9, "one page after another"
    assert pages.named() == ([], [])
    assert sorted(pages.asked) == [(after, "") for after in ["", *(pages.prefix + name for name in names(90)[8:-1:9])]]


def test_what_is_new_anywhere_is_in_the_next_listing() -> None:
    """Before the first range and after the last one, beside a bound, and in one range more than a page holds."""
    pages = Pages(*names(40), page_keys=10)
    pages.named()
    new = ["a", "shop/t0008/CDC0", "shop/t0008/CDC2", "z", *(f"shop/t0020/CDC1{number:02}" for number in range(25))]
    pages.tags |= dict.fromkeys(new, "1")
    assert pages.named() == (sorted(new), [])
    del pages.tags["shop/t0008/CDC1"]  # a bound
    pages.tags["shop/t0017/CDC1"] = "other"  # another one
    assert pages.named() == (["shop/t0017/CDC1"], ["shop/t0008/CDC1"])


def test_a_bucket_that_is_emptied_and_filled(small_ranges: None) -> None:
    pages = Pages(*names(30))
    pages.named()
    pages.tags.clear()
    assert pages.named() == ([], names(30))
    pages.tags["a"] = "1"
    assert pages.named() == (["a"], [])


@pytest.mark.parametrize("seed", range(20))
def test_accumulated_changes_are_the_bucket(seed: int) -> None:
    rnd = random.Random(seed)
    pages = Pages(page_keys=rnd.choice((1, 2, 5, 10, 1000)))
    files: dict[str, str] = {}
    for _ in range(8):
        for _ in range(rnd.choice((0, 1, 30))):
            name = "/".join(rnd.choice(("a", "b+", "ü", "z%", "~")) for _ in range(rnd.randint(1, 4)))
            if rnd.random() < 0.7:
                pages.tags[name] = str(rnd.random())
            else:
                pages.tags.pop(name, None)
        now, gone, _ = pages.changes()
        for name in gone:
            del files[name]
        files |= {entry.name: entry.tag for entry in now}
        assert files == pages.tags


def test_ranges_wait_side_by_side() -> None:
    pages = Pages(*names(9 * RANGES_AT_ONCE_MAX))
    pages.named()
    meeting, ask = Barrier(RANGES_AT_ONCE_MAX, timeout=PATIENCE_S), pages.ask

    def together(after: str, token: str) -> bytes:
        meeting.wait()
        return ask(after, token)

    now, gone, _ = list_changes(together, pages.prefix, pages.known)
    assert (now, gone) == ([], [])


def test_an_empty_page_that_has_more_is_followed() -> None:
    """S3 gives one where a bucket has many versions of deleted files."""
    answers = iter([body({}, token="1"), body({"a": "1"}, token="2"), body({})])
    now, _, _ = list_changes(lambda _, __: next(answers), "", None)
    assert [entry.name for entry in now] == ["a"]


def test_a_storage_that_lists_in_another_order_is_refused() -> None:
    with pytest.raises(Refused, match="order"):
        list_changes(lambda _, __: body({"b": "1", "a": "1"}), "", None)


def test_a_storage_that_does_not_begin_where_it_should_is_refused() -> None:
    pages = Pages(*names(20))
    pages.named()
    with pytest.raises(Refused, match="after the key that was given"):
        list_changes(lambda _, token: pages.ask("", token), pages.prefix, pages.known)


def test_a_listing_of_another_storage_is_as_none(tmp_path: Path) -> None:
    from sidecar.shared.log.storage import local_tree

    pages = Pages("a")
    pages.known = local_tree.list_changes(str(tmp_path), None).known
    assert pages.named() == (["a"], [])


def test_a_page_that_comes_again_and_again_is_refused() -> None:
    with pytest.raises(Refused, match="again and again"):
        list_changes(lambda after, token: body({}, token="7"), "p/", None)
