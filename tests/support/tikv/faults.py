"""What may happen to a cluster while it is read, by a seed."""

from __future__ import annotations

import random

from tests.support.tikv.server import PD_MEMBERS, TikvServers
from ticdc_dump.tikv import cdcpb_pb2, errorpb_pb2

BUSY = cdcpb_pb2.Error(server_is_busy=errorpb_pb2.ServerIsBusy(reason="too many pending incremental scans", backoff_ms=20))
CONGESTED = cdcpb_pb2.Error(congested=cdcpb_pb2.Congested(region_id=1))
UNKNOWN = cdcpb_pb2.Error()


class Faults:
    """`happen` makes one and returns its name."""

    def __init__(self, servers: TikvServers, *, seed: int) -> None:
        self._servers, self._cluster = servers, servers.cluster
        self._random = random.Random(seed)
        self._stopped: int | None = None
        self._kinds = [
            self.split,
            self.split,
            self.merge,
            self.move_leader,
            self.change_peers,
            self.be_busy,
            self.be_congested,
            self.break_streams,
            self.change_pd_leader,
            self.stop_or_start_store,
        ]

    def happen(self) -> str:
        kind = self._random.choice(self._kinds)
        kind()
        return kind.__name__

    def split(self) -> None:
        self._cluster.split(self._random.choice(self._cluster.history.log).key)

    def merge(self) -> None:
        self._cluster.merge(self._region())

    def move_leader(self) -> None:
        self._cluster.lead(self._region(), self._random.choice(sorted(self._cluster.stores - {self._stopped})))

    def change_peers(self) -> None:
        self._cluster.change_peers(self._region())

    def be_busy(self) -> None:
        self._cluster.refusals += [BUSY] * self._random.randrange(1, 4)
        self.break_streams()

    def be_congested(self) -> None:
        self._cluster.end(self._region(), self._random.choice([CONGESTED, UNKNOWN]))

    def break_streams(self) -> None:
        self._cluster.break_streams(self._random.choice([None, *self._cluster.stores]))

    def change_pd_leader(self) -> None:
        self._cluster.pd_leader = self._random.randrange(PD_MEMBERS)

    def stop_or_start_store(self) -> None:
        """The others take over what a stopped one led, a little later."""
        if self._stopped is not None:
            self._servers.start_store(self._stopped)
            self._stopped = None
            return
        self._stopped = self._random.choice(sorted(self._cluster.stores))
        self._servers.stop_store(self._stopped)
        others = sorted(self._cluster.stores - {self._stopped})
        for number, region in enumerate(self._cluster.regions):
            if region.leader == self._stopped:
                self._cluster.lead(number, self._random.choice(others))

    def _region(self) -> int:
        return self._random.randrange(len(self._cluster.regions))
