"""A test of many checks makes each of them, and says which fail."""

from __future__ import annotations

import pytest

from tests.support.each import each


def test_it_checks_each_and_reports_all_that_fail() -> None:
    checked = []

    @each([1, 2, 3, 4])
    def test_even(number: int) -> None:
        """Of numbers."""
        checked.append(number)
        assert number % 2 == 0, f"{number} is odd\nand more"
        assert 8 / (number - 4)

    assert (test_even.__name__, test_even.__doc__) == ("test_even", "Of numbers.")
    with pytest.raises(AssertionError) as failed:
        test_even()
    assert str(failed.value).split("\n")[:3] == ["3 of 4:", "1: AssertionError: 1 is odd", "3: AssertionError: 3 is odd"]
    assert str(failed.value).split("\n")[3].startswith("4: ZeroDivisionError")
    assert checked == [1, 2, 3, 4]
    each([2, 4])(lambda number: None)()


def test_a_list_that_became_empty_is_noticed() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        each([])
