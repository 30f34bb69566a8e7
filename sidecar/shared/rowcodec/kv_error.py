"""What the readers of raw key-values raise among themselves, before table and key are known.

Every reader of raw key-values in this package is given bytes and gives a value, or raises `Broken` with the place inside those
bytes. kv_row.py turns it into MessageUnreadable with table, key and the place in the row; nothing else may escape.
"""

from __future__ import annotations


class Broken(Exception):
    """The bytes at offset `at` are not what the format has there. `form` and `got` are short texts."""

    def __init__(self, at: int, form: str, got: str) -> None:
        super().__init__(f"byte {at}: expected {form}; got {got}")
        self.at = at
        self.form = form
        self.got = got

    def shifted(self, by: int, what: str = "") -> Broken:
        """The same, seen from a place `by` bytes earlier, inside `what`."""
        return Broken(self.at + by, f"{what}: {self.form}" if what else self.form, self.got)
