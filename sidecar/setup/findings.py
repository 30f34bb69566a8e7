"""What `init` reports beside what it writes: what of the changefeed is to change, and what the settings still lack."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.setup.cluster import ChosenChangefeed
from sidecar.setup.settings import ChosenSetting
from sidecar.shared.config import PushSection
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import ConfigError
from sidecar.shared.process.checks import CheckFinding, warning


def findings(feed: ChosenChangefeed, chosen: Sequence[ChosenSetting]) -> list[CheckFinding]:
    """Warnings, the changefeed's first."""
    against = [warning(one.what, setting=f"{one.setting} (changefeed)", hint=one.hint) for one in feed.problems]
    if feed.silent:
        what = f"of PD's members {', '.join(feed.silent)} did not answer from here"
        against.append(warning(what, setting="etcd.endpoints", hint="add addresses under which the sidecar's machine reaches them"))
    secret = next(str(one.value) for one in chosen if one.setting == "source.password_file")
    if not secret:
        hint = "write the password that the SQL gives the account to a file that only the sidecar's user can read, and name that file"
        against.append(warning("no file of the account's password is named", setting="source.password_file", hint=hint))
    try:
        read_secret(secret)
    except ConfigError as error:
        hint = "write the password to it that the SQL gives the account, on one line"
        against.append(warning(error.message, setting="source.password_file", hint=hint))
    hosts = ",".join(feed.changefeed.sink.hosts) if feed.feed == "push" else ""
    if hosts and hosts != PushSection().listen:
        what = f"TiCDC sends to {hosts}, and the sidecar listens on {PushSection().listen}"
        against.append(warning(what, setting="push.listen", hint="see deploy/push/MESSAGES.md: beyond this machine it needs push.tls"))
    if feed.unnamed:
        what = f"the changefeed's rules {', '.join(feed.unnamed)} name no database, and the SQL grants SELECT on those that are named only"
        against.append(warning(what, setting="GRANT SELECT", hint="add a line for each database to the SQL"))
    return against
