"""Parts of long lists."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from sidecar.console.paging import part


def test_each_item_is_on_one_page_and_links_lead_from_page_to_page() -> None:
    items, seen, params = list(range(251)), list[int](), [("q", "a&b=c"), ("page", "1")]
    while True:
        found = part(items, params, size=100)
        assert (found.first, found.count, found.pages) == (len(seen), 251, 3)
        seen += found.shown
        if found.number == found.pages:
            break
        params = parse_qsl(found.address(found.number + 1).removeprefix("?"))
        assert params[0] == ("q", "a&b=c")
    assert seen == items


@pytest.mark.parametrize(
    ("given", "number"), [("", 1), ("0", 1), ("-1", 1), ("x", 1), ("2", 2), ("3", 3), ("4", 3), ("9" * 9, 3), ("9" * 5000, 1), ("٢", 2)]
)
def test_what_is_no_page_is_the_nearest_one(given: str, number: int) -> None:
    assert part(list(range(250)), [("page", given)]).number == number


def test_an_empty_list_is_one_page() -> None:
    found = part(list[int](), [])
    assert (found.number, found.pages, found.shown) == (1, 1, [])


def test_two_lists_of_a_page_turn_by_themselves() -> None:
    params = [("lanes", "2"), ("page", "3")]
    assert part(list(range(500)), params, name="lanes", size=50).first == 50
    assert part(list(range(500)), params, size=50).address(1) == "?lanes=2&page=1"
