"""Which of a pump's answers no other try can help."""

from __future__ import annotations

import grpc
import pytest

from sidecar.feeds.binlog.channel import refusal


class Answer(grpc.RpcError):  # type: ignore[misc]  # grpc has no types
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(
    ("code", "details", "way_out"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "grpc: trying to send message larger than max (2147483999 vs. 2147483647)", "more than 2 GiB"),
        (grpc.StatusCode.UNKNOWN, "cluster ID are mismatch, 7 vs 8", "set binlog.pd to members of the pump's cluster"),
        (grpc.StatusCode.UNAUTHENTICATED, "no certificate", "set binlog.tls"),
    ],
)
def test_what_no_other_try_can_help_is_refused_with_the_pumps_words_and_the_way_out(
    code: grpc.StatusCode, details: str, way_out: str
) -> None:
    unsuitable = refusal(Answer(code, details), "pump a (here:1)", 7)
    assert unsuitable is not None
    assert "pump a (here:1)" in unsuitable.message
    assert details in unsuitable.message
    assert way_out in str(unsuitable.hint)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN])
def test_what_may_pass_is_tried_again(code: grpc.StatusCode) -> None:
    assert refusal(Answer(code, "it is gone"), "pump a", 7) is None
