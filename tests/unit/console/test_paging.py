"""Parts of long lists."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from sidecar.console.paging import part


def test_each_item_is_on_one_page_and_links_lead_from_page_to_page() -> None:
    items, params = list(range(251)), [("q", "a&b=c"), ("page", "1")]
    seen: list[int] = []
    while True:
        page = part(items, params, size=100)
        assert (page.first, page.count, page.pages) == (len(seen), 251, 3)
        seen += page.shown
        if page.number == page.pages:
            break
        params = parse_qsl(page.address(page.number + 1).removeprefix("?"))
        assert params[0] == ("q", "a&b=c")
    assert seen == items


@pytest.mark.parametrize(
    ("given", "number"), [("", 1), ("0", 1), ("-1", 1), ("x", 1), ("2", 2), ("3", 3), ("4", 3), ("9" * 9, 3), ("9" * 5000, 1), ("٢", 2)]
)
def test_what_is_no_page_is_the_nearest_one(given: str, number: int) -> None:
    assert part(list(range(250)), [("page", given)]).number == number


def test_an_empty_list_is_one_page() -> None:
    nothing: list[int] = []
    page = part(nothing, [])
    assert (page.number, page.pages, page.shown) == (1, 1, [])


def test_two_lists_of_a_page_turn_by_themselves() -> None:
    params = [("lanes", "2"), ("page", "3")]
    assert part(list(range(500)), params, name="lanes", size=50).first == 50
    assert part(list(range(500)), params, size=50).address(1) == "?lanes=2&page=1"
