"""The commit at which everything passed: `make record` writes it after a run of everything, and a developer commits the file.

It counts for DAYS and for COMMITS. What no diff shows changes meanwhile: the machine, its packages, and what the chooser cannot see.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.turns import git

FILE = "tests/everything_passed.toml"
DAYS = 3
COMMITS = 150


@dataclass(frozen=True, slots=True)
class Passed:
    """`at`: when the run ended."""

    commit: str
    at: datetime

    @classmethod
    def read(cls, root: Path) -> Passed:
        """Raises ValueError where there is none, or it says something else."""
        try:
            record = tomllib.loads((root / FILE).read_text())
            commit, at = record["commit"], record["at"]
        except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{FILE} does not say at which commit everything passed: {error!r}") from error
        if not isinstance(commit, str) or not isinstance(at, datetime) or at.tzinfo is None:
            raise ValueError(f'{FILE}: expected commit = "…" and at = a time with its zone')
        return cls(commit, at)

    def written(self) -> str:
        return (
            "# The last commit at which everything passed (make record). .ci/run chooses tests by what has changed since: tests/choice.\n"
            f'commit = "{self.commit}"\nat = {self.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}\n'
        )

    def too_old(self, root: Path, now: datetime) -> str:
        """Why it does not count; empty where it does."""
        if self.commit not in git(root, "rev-list", "HEAD"):
            return f"{self.commit[:8]}, at which everything passed, is not in the history of HEAD"
        if (commits := int(git(root, "rev-list", "--count", f"{self.commit}..HEAD")[0])) > COMMITS:
            return f"everything passed {commits} commits ago, more than {COMMITS}"
        if now - self.at > timedelta(days=DAYS):
            return f"everything passed at {self.at:%Y-%m-%d %H:%M}, more than {DAYS} days ago"
        if self.at > now + timedelta(days=1):
            return f"{FILE} is of {self.at:%Y-%m-%d %H:%M}, which has not come yet"
        return ""
