"""etcd, and the changefeed's definition as it is there.

Keys are written below our own root only, compared with what was there, and hang on a lease: nothing is left behind.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from uuid import uuid4

from sidecar.adapters.etcd.changefeed import TICDC_ROOT, list_changefeeds
from sidecar.adapters.etcd.client import ROOT, Compare, Delete, EtcdClient, Put, changefeed_root
from sidecar.adapters.etcd.owner import KEEPALIVES_A_LEASE, owner
from sidecar.config import Config, EtcdSection
from sidecar.errors import CoordinationError
from sidecar.feeds.checks import of_problem
from sidecar.process.checks import Skip, Told, failed, ok, warning
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.ticdc.changefeed import Changefeed
from sidecar.ticdc.changefeed_info import masked
from sidecar.ticdc.suitability import problems

LEASE_LOW_S, LEASE_HIGH_S = 5, 60
"""Below, an election of etcd's takes a lease with it; above, a standby takes over only after so long."""
PROBE_LEASE_S = 30


def etcd(section: EtcdSection, opened: ExitStack) -> Told[EtcdClient]:
    client = EtcdClient(section)
    opened.callback(client.close)
    began_s = time.monotonic()
    there = list_changefeeds(client)
    took_s = time.monotonic() - began_s
    yield ok(f"{', '.join(section.endpoints)} answered in {took_s * 1000:.0f} ms and has {len(there)} changefeeds")
    if not LEASE_LOW_S <= section.lease_s <= LEASE_HIGH_S:
        why = "an election in etcd can take longer" if section.lease_s < LEASE_LOW_S else "a standby waits that long"
        yield warning(f"a lease of {section.lease_s} s: {why}", setting="etcd.lease_s", hint="give about 10")
    if took_s > section.lease_s / KEEPALIVES_A_LEASE / 2:
        what = f"an answer took {took_s:.1f} s, and keepalives are sent every {section.lease_s / KEEPALIVES_A_LEASE:.1f} s"
        yield warning(what, setting="etcd.lease_s", hint="look at etcd's latency, or raise it")
    return client


def changefeed(client: EtcdClient, config: Config) -> Told[Changefeed]:
    found = read_changefeed(client, config)
    made_by = f", made by TiCDC {found.creator_version}" if found.creator_version else ""
    yield ok(f"{found.name} is {found.protocol} to {masked(found.sink_uri)}{made_by}")
    holder = owner(client, changefeed_root(found.name, found.incarnation))
    yield ok(f"owned by {holder.host} (pid {holder.pid}) since {holder.since}" if holder else "no sidecar owns it now")
    return found


def etcd_write(client: EtcdClient, root: str, *, write: bool) -> Told[None]:
    if not root.startswith(ROOT) or root.startswith(TICDC_ROOT.rstrip("/")):
        yield failed(f"the root {root} is in TiCDC's own", setting="none", hint="report this: an unknown key there stops TiCDC")
        return
    if not write:
        raise Skip("not tried (--no-write)")
    key = f"{root}/preflight/{uuid4().hex}"
    lease = client.grant(PROBE_LEASE_S)
    try:
        made = client.transact([Compare(key, "created", 0)], [Put(key, b"", lease)])
        again = client.transact([Compare(key, "created", 0)], [Put(key, b"", lease)])
        gone = client.transact([Compare(key, "created", made.revision)], [Delete(key)])
    finally:
        client.revoke(lease)
    if not made.succeeded or again.succeeded or not gone.succeeded:
        raise CoordinationError(f"etcd does not hold a transaction's compares ({key})", hint="is it a real etcd, of version 3.4 or later?")
    yield ok(f"a key below {root} was put with a lease, fenced and deleted")


def state(found: Changefeed) -> Told[None]:
    against = [problem for problem in problems(found) if problem.setting == "state"]
    yield from map(of_problem, against)
    if not against:
        if found.state in ("warning", "pending") or found.error:
            what = f"{found.state}: TiCDC tries again after {found.error or 'an error that it does not tell'}"
            yield warning(what, setting="the changefeed's state", hint="mend what its error says; see cdc cli changefeed query")
        else:
            yield ok(found.state)
