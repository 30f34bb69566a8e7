"""etcd, and the changefeed's definition as it is there.

Keys are written below our own root only, compared with what was there, and hang on a lease: nothing is left behind.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from uuid import uuid4

from sidecar.adapters.etcd.changefeed import TICDC_ROOT, list_changefeeds
from sidecar.adapters.etcd.keeper import KEEPALIVES_A_LEASE
from sidecar.adapters.etcd.keys import ROOT, Compare, Delete, Keys, Put, changefeed_root
from sidecar.adapters.etcd.opening import open_keys
from sidecar.adapters.etcd.owner import owner, owner_log
from sidecar.adapters.etcd.progress import load_progress
from sidecar.feeds.checks import LogEnd, of_problem
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.shared.config import Config
from sidecar.shared.errors import CoordinationError, NoProgress, parted
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.layout import logged_dumps
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.progress import newest
from sidecar.shared.process.checks import Checking, CheckSkipped, failed, ok, warning
from sidecar.shared.ticdc.changefeed import UNKNOWN, Changefeed
from sidecar.shared.ticdc.changefeed_info import masked
from sidecar.shared.ticdc.suitability import problems_of_key_values

LEASE_LOW_S, LEASE_HIGH_S = 5, 60
"""Below, an election of etcd's takes a lease with it; above, a standby takes over only after so long."""
PROBE_LEASE_S = 30


def etcd(config: Config, opened: ExitStack) -> Checking[Keys]:
    section = config.etcd
    client = open_keys(section)
    opened.callback(client.close)
    began_s = time.monotonic()
    there = list_changefeeds(client)
    took_s = time.monotonic() - began_s
    has = "" if config.changefeed.file else f" and has {len(there)} changefeeds"
    if section.folder and not os.path.isdir(section.folder):
        yield ok(f"{section.folder} is not there yet: the first start makes it")
    else:
        yield ok(f"{section.folder or ', '.join(section.endpoints)} answered in {took_s * 1000:.0f} ms{has}")
    if not LEASE_LOW_S <= section.lease_s <= LEASE_HIGH_S:
        why = "an election in etcd can take longer" if section.lease_s < LEASE_LOW_S else "a standby waits that long"
        yield warning(f"a lease of {section.lease_s} s: {why}", setting="etcd.lease_s", hint="give about 10")
    if took_s > section.lease_s / KEEPALIVES_A_LEASE / 2:
        what = f"an answer took {took_s:.1f} s, and keepalives are sent every {section.lease_s / KEEPALIVES_A_LEASE:.1f} s"
        yield warning(what, setting="etcd.lease_s", hint="look at etcd's latency, or raise it")
    return client


def changefeed(client: Keys, config: Config) -> Checking[Changefeed]:
    feed = read_changefeed(client, config)
    if config.feed == "binlog":
        if feed.name in list_changefeeds(client):
            yield failed(
                f"TiCDC has a changefeed {feed.name} too, and commands and marks could not tell the two apart",
                setting="binlog.name",
                hint="give another name",
            )
        yield ok(f"{feed.name} is TiDB-Binlog's of PD {', '.join(config.binlog.pd)}")
        return feed
    made_by = f", made by TiCDC {feed.creator_version}" if feed.creator_version else ""
    yield ok(f"{feed.name} is {feed.protocol} to {masked(feed.sink_uri)}{made_by}")
    if config.changefeed.file:
        what = f"this is what {config.changefeed.file} says: a change of the changefeed since it was written is not seen"
        yield ok(f"{what}; write it again after each, and the sidecar attaches again")
    holder = owner(client, changefeed_root(feed.name, feed.incarnation))
    yield ok(f"owned by {holder.host} (pid {holder.pid}) since {holder.since}" if holder else "no sidecar owns it now")
    return feed


def etcd_write(client: Keys, root: str, *, write: bool) -> Checking[None]:
    if not root.startswith(ROOT) or root.startswith(TICDC_ROOT.rstrip("/")):
        yield failed(f"the root {root} is in TiCDC's own", setting="none", hint="report this: an unknown key there stops TiCDC")
        return
    if not write:
        raise CheckSkipped("not tried (--no-write)")
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


def state(changefeed: Changefeed) -> Checking[None]:
    if changefeed.state == UNKNOWN:
        yield ok("not known, as a file has the definition: whether it sends is seen by its messages and resolved marks alone")
        return
    against = [problem for problem in problems_of_key_values(changefeed) if problem.setting == "state"]
    yield from map(of_problem, against)
    if not against:
        if changefeed.state in ("warning", "pending") or changefeed.error:
            what = f"{changefeed.state}: TiCDC tries again after {changefeed.error or 'an error that it does not report'}"
            yield warning(what, setting="the changefeed's state", hint="repair what its error names; see cdc cli changefeed query")
        else:
            yield ok(changefeed.state)


def owners_log(client: Keys, root: str, folder: Folder, *, last: LogEnd | None, standby: bool) -> Checking[None]:
    """Whether `folder`, which ends with `last`, is the log that the present owner writes: the next owner continues there.
    A standby fails where it is not; an operator who means to begin a new log is warned."""
    holder, written, own = owner(client, root), owner_log(client, root), known_id(folder)
    hint = "set log.uri to the owner's log, in a storage that both machines reach"
    if holder is None:
        yield ok("no sidecar owns the changefeed now")
    elif not written:
        yield ok(f"{holder.host} has not recorded which log it writes: it has just begun, or is of a version before 0.5")
    elif own != written:
        had = f"the log {own}" if own else "no log"
        finding = failed if standby else warning
        yield finding(f"{holder.host} owns the changefeed and writes the log {written}; {folder} has {had}", setting="log.uri", hint=hint)
    elif last is None or last.epoch < holder.epoch:
        what = f"{folder} has no segment of the owner's epoch {holder.epoch}: it is a copy of its log, or the owner has written none yet"
        yield warning(what, setting="log.uri", hint=f"check again in a minute; if it is a copy, {hint}")
    else:
        yield ok(f"{folder} is the log that {holder.host} writes")


def dump_on_record(client: Keys, root: str, *, log: str, last: LogEnd | None) -> Checking[None]:
    """Whether the dump that etcd knows of is in this log, which ends with `last` and has the id `log`."""
    try:
        stored = load_progress(client, root)
    except NoProgress as error:
        yield warning(error.message, setting="log.uri", hint="nothing: the sidecar writes it again from the log")
        return
    dumps = newest(logged_dumps(last.dumps if last else ()), stored, log=log, last_seq=last.seq if last else Seq(-1))
    before = {dump.dump_id: dump for dump in stored}
    if not dumps:
        yield ok("no dump is on record")
    for dump in dumps:
        then = before.get(dump.dump_id)
        if then is not None and dump.revision == then.revision and dump.tables != then.tables:
            why, hint = parted(dump.reason or "")
            yield warning(f"dump {dump.dump_id} ({then.state}) will be reported as failed: {why}", setting="log.uri", hint=hint)
        else:
            yield ok(f"dump {dump.dump_id} is {dump.state}, and in this log")
