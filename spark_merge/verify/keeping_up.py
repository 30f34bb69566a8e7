"""Whether a comparison can follow the log as fast as it grows: else it reads no more ranges, so that what it has read comes to an end, and
reports what it has skipped."""

from __future__ import annotations

FOLLOW_MAX_S = 300.0
"""For following what the log has received since the last time. If it takes longer, and longer each time, the log grows too fast."""


class KeepingUp:
    """Of one comparison. `narrowed`: why some of its ranges are not compared; empty: they are."""

    def __init__(self) -> None:
        self._last_s = float("inf")
        self.narrowed = ""

    def followed(self, seconds: float, *, done: int, ranges: int) -> None:
        """The log was followed once more, in so long, after `done` of the ranges were read."""
        if seconds > max(self._last_s, FOLLOW_MAX_S) and done < ranges:
            self.narrowed = (
                f"{done:,} of {ranges:,} ranges were compared: the log grows faster than it can be followed beside deliveries; "
                "verify a sample, or again when less is written"
            )
        self._last_s = seconds

    def left(self, keys: int) -> None:
        """So many keys changed between the reads of the two sides, and are too many to look at again."""
        if keys and not self.narrowed:
            self.narrowed = (
                f"{keys:,} rows changed while they were compared and were not looked at again, because there are too many: "
                "verify a sample, or again when less is written"
            )
