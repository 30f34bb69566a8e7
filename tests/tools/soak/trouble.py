"""What goes wrong in a soak, at random but by a seed, and the dumps and verifications that run all along.

Deaths come in the first quarter only: what dies gives back what it held, and a leak shows in what lives on. Outages and frozen processes,
which must be lived through, come until the end.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.integration.test_live import DEADLINE_S, FREEZE_S, LEASE_S, Disasters, rows
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess

DEATHS_SHARE = 0.25
PARTITIONS_MAX = 6
_DUMP = ("--chunk-rows", "500", "--rows-per-second", "2000")
_AT_REST = ("finished", "failed", "none", "")
COPY = "copy"
VERIFIED = ("--sink", COPY)
"""Of the other sink, the files of an hour, each verification reads all of them for each table; `await_equal` does that once, at the end."""
_EQUAL, _INCOMPLETE = "equal", "incomplete"
_SHOWN_CHARS = 4000


class Trouble:
    """`counts`: what happened, by name. `dumped`: rows of the dumps that have ended. Raises what the sidecar must not do: end, or stand."""

    def __init__(self, rig: Rig, sidecar: SidecarProcess, worker: MergeWorkerProcess, *, seed: int) -> None:
        self._disasters = Disasters(rig, sidecar, worker, seed=seed)
        self._random = self._disasters.random
        self._rig, self._sidecar = rig, sidecar
        self.counts: Counter[str] = Counter()
        self.dumped = 0
        self._verified: dict[str, str] = {}

    def run(self, seconds: float, reported: Callable[[str], None]) -> None:
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < seconds:
            self.dump()
            self.verification()
            kind = self._random.choice(self._kinds(deaths=passed_s < seconds * DEATHS_SHARE))
            reported(f"{passed_s:7.1f} s  {kind.__name__}")
            kind()
            self.counts[kind.__name__] += 1
            time.sleep(self._random.uniform(2, 8))  # what goes on between two disasters is what is measured

    def dump(self) -> None:
        """Start the next one if none is under way."""
        status = self._sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        if status["state"] not in _AT_REST:
            return
        if status["state"] in ("finished", "failed"):
            self.counts[f"dumps {status['state']}"] += 1
            self.dumped += rows(status)
        self._ask("dumpstart", *_DUMP)

    def verification(self) -> None:
        """Start the next one if none is under way; raises AssertionError if one has a difference: nobody has spoilt a row. Rows that the
        first dump has not brought are none."""
        done = self._sidecar.cdc("dumpverify", "--list", "--json")
        if done.returncode:
            self._refused("dumpverify --list")
            return
        operations = json.loads(done.stdout)["operations"]
        for one in operations:
            self._verified[one["id"]] = f"verifications {one['state']}"
            assert one["state"] != "finished" or one["result"] == _EQUAL or one["result"].startswith(_INCOMPLETE), self._differences(
                one["id"]
            )
        if all(one["state"] != "running" for one in operations):
            self._ask("dumpverify", "--detach", *VERIFIED)

    def _differences(self, number: str) -> str:
        return self._sidecar.cdc("dumpverify", "--differences", "--id", number).stdout[-_SHOWN_CHARS:]

    def last_verification(self) -> None:
        """One for which everything is equal, after all else."""
        self._sidecar.cdc("dumpverify", "--id", "last", "--json", timeout_s=DEADLINE_S)  # until that is over
        done = self._sidecar.cdc("dumpverify", "--json", *VERIFIED, timeout_s=DEADLINE_S)
        assert done.returncode == 0, f"{done.returncode}: {done.stdout[-_SHOWN_CHARS:]}{done.stderr}"
        self._verified["last"] = "verifications finished"
        self.counts.update(self._verified.values())

    def last_dump(self) -> dict[str, Any]:
        """The status of one that has finished, after all else."""
        self.dump()
        dump = self._sidecar.await_status(lambda status: status["state"] in ("finished", "failed"), timeout_s=DEADLINE_S)
        if dump["state"] == "failed":
            self.dump()
            dump = self._sidecar.await_status(lambda status: status["state"] == "finished", timeout_s=DEADLINE_S)
        self.dumped += rows(dump)
        return dump

    # ---- kinds ----------------------------------------------------------------------------------------------------------

    def _kinds(self, *, deaths: bool) -> list[Callable[[], None]]:
        all_along = [
            self._disasters.stop_feed,
            self._disasters.stop_etcd,
            self._disasters.stop_source,
            self._disasters.resend,
            self.freeze_for_a_moment,
            self.freeze_beyond_the_lease,
            self.restart_dump,
        ]
        if not deaths:
            return all_along
        more = [self._disasters.add_partition] if self._disasters.partitions < PARTITIONS_MAX else []
        return [*all_along, self._disasters.kill_sidecar, self._disasters.kill_worker, *more]

    def freeze_for_a_moment(self) -> None:
        self._freeze(LEASE_S / 3)

    def freeze_beyond_the_lease(self) -> None:
        self._freeze(FREEZE_S)

    def restart_dump(self) -> None:
        self._ask("dumprestart")

    def _freeze(self, seconds: float) -> None:
        self._sidecar.freeze()
        time.sleep(seconds)
        self._sidecar.thaw()

    def _ask(self, command: str, *arguments: str) -> None:
        """What is refused because the sidecar is amid something else is counted, and asked again in the next round."""
        done = self._sidecar.cdc(command, *arguments)
        if done.returncode:
            self._refused(command)

    def _refused(self, command: str) -> None:
        ended = self._sidecar.ended()
        assert ended is None, f"the sidecar ended with {ended}: {self._sidecar.log.read_text()[-_SHOWN_CHARS:]}"
        self.counts[f"{command} refused"] += 1
