"""The command that is named for a sink that lacks rows."""

from __future__ import annotations

from sidecar.run.completing import NAMED_MAX, completing_dump, named
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.changefeed import ChangefeedName

ORDERS = TableName("shop", "orders")


def test_the_command_can_be_pasted_into_a_shell() -> None:
    assert completing_dump(ChangefeedName("default", "default", "cf"), ["lake"], [ORDERS]) == (
        "ticdc-dump dumpstart -c cf --sink lake --tables shop.orders"
    )
    odd = completing_dump(ChangefeedName("default", "ks", "cf"), ["file:///out?format=jsonl"], [TableName("my shop", 'a"b')])
    assert odd == """ticdc-dump dumpstart -c cf -n ks --sink 'file:///out?format=jsonl' --tables '"my shop"."a""b"'"""


def test_more_tables_than_a_line_names_are_dumped_with_all_others() -> None:
    many = [TableName("shop", f"t{number}") for number in range(NAMED_MAX + 2)]
    assert completing_dump(ChangefeedName("default", "default", "cf"), ["lake"], many).endswith("--sink lake")
    assert named(many).endswith("shop.t9 and 2 more")
    assert named(many[:2]) == "shop.t0, shop.t1"
