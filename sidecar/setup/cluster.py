"""What PD's etcd has for a sidecar: the changefeeds, and of the one that is chosen what follows from its definition.

A sink that cannot carry a dump under any other setting of the changefeed is an error, as the settings follow from it. What else is wrong
can be corrected in TiCDC while the settings stay as they are: it is in `problems`. Reading only. No text here shows an account or a
parameter of a sink URI but its protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import stamina

from sidecar.adapters.etcd.changefeed import list_changefeeds, read_changefeed_info
from sidecar.adapters.etcd.cluster import other_members, pd_cluster_id, tidb_servers
from sidecar.adapters.etcd.keys import Keys
from sidecar.shared.config_files import read_definition
from sidecar.shared.errors import ConfigError, CoordinationLost, FeedUnsuitable, RefusedRequest
from sidecar.shared.process.kept_secrets import without_secrets
from sidecar.shared.process.printable import one_line
from sidecar.shared.ticdc.changefeed import PUSH_SCHEME, STORAGE_SCHEMES, Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.ticdc.definition_file import definition_in, name_in
from sidecar.shared.ticdc.scope import ddls_hidden
from sidecar.shared.ticdc.suitability import Problem, no_marks, problems, problems_of_key_values
from sidecar.shared.ticdc.table_rules import schemas_named

ASK_TRIES, ASK_S = 5, 10.0
"""Of an etcd that does not answer: it may be changing its leader."""
_NEVER = frozenset({"sink-uri", "protocol"})
"""Settings of a changefeed without which there is no feed to name in the settings."""

KEY_VALUES_HINT = "; or read TiKV's change feed in place of the changefeed's sink, with --tikv"


@dataclass(frozen=True, slots=True)
class WantedChangefeed:
    """What is known of the changefeed before etcd is queried; empty: any."""

    cluster: str = ""
    namespace: str = ""
    id: str = ""

    def fits(self, name: ChangefeedName) -> bool:
        pairs = ((self.cluster, name.cluster), (self.namespace, name.namespace), (self.id, name.id))
        return all(wanted in ("", there) for wanted, there in pairs)

    def __str__(self) -> str:
        return "/".join(part or "*" for part in (self.cluster, self.namespace, self.id))


@dataclass(frozen=True, slots=True)
class ChosenChangefeed:
    """`feed`: as the settings name it. `endpoints`: PD's, those that were given and others that answer; `silent`: others that do not.
    `tidb`: addresses host:port of the TiDB servers that PD knows; none where they are of another cluster than the changefeed's.
    `pd_cluster_id`: empty where this etcd is not PD's. `databases`: those that the rules name, `unnamed`: rules that may match others.
    `no_marks`: why dumps cannot have marks as it is defined; empty: they can. `file`: that has the definition; empty: etcd has it."""

    changefeed: Changefeed
    feed: str
    endpoints: tuple[str, ...]
    silent: tuple[str, ...]
    problems: tuple[Problem, ...]
    tidb: tuple[str, ...]
    pd_cluster_id: str
    databases: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    ddls_hidden: bool = False
    no_marks: str = ""
    file: str = ""


@stamina.retry(on=CoordinationLost, attempts=ASK_TRIES, timeout=ASK_S, wait_initial=0.2)
def matching(client: Keys, wanted: WantedChangefeed) -> list[ChangefeedName]:
    """At least one. Raises ConfigError that lists the changefeeds there are."""
    there = list_changefeeds(client)
    place = ", ".join(client.section.endpoints)
    if not there:
        raise ConfigError(
            f"etcd at {place} has no changefeed of TiCDC",
            hint="give --pd of the cluster whose changefeed it is, or create one first: deploy/ticdc has examples",
        )
    names = [name for name in there if wanted.fits(name)]
    if not names:
        raise ConfigError(
            f"no changefeed is {wanted} (cluster/namespace/id); etcd at {place} has: {one_line('; '.join(map(str, there)))}",
            hint="name one of these with --changefeed-id, --namespace and --cluster",
        )
    return names


def described(client: Keys, name: ChangefeedName) -> str:
    """State, protocol and sink in one line, or why they cannot be read."""
    try:
        return summary(changefeed(name, read_changefeed_info(client, name)))
    except ConfigError as error:
        return one_line(error.message)


def summary(changefeed: Changefeed) -> str:
    return one_line(f"{changefeed.state}, {changefeed.protocol or 'no protocol'} to {shown_uri(changefeed.sink_uri)}")


def shown_uri(uri: str) -> str:
    try:
        return without_secrets(uri, but=("protocol",))
    except ValueError:
        return "a sink URI that is none"


@stamina.retry(on=CoordinationLost, attempts=ASK_TRIES, timeout=ASK_S, wait_initial=0.2)
def chosen_changefeed(client: Keys, name: ChangefeedName, *, key_values: bool) -> ChosenChangefeed:
    """`key_values`: from TiKV, whatever the sink is. Raises ConfigError for a definition that is none, FeedUnsuitable for a sink that can
    never carry a dump."""
    chosen = changefeed(name, read_changefeed_info(client, name))
    made = _followed(chosen, key_values=key_values)
    cluster = pd_cluster_id(client)
    elsewhere = _elsewhere(chosen.upstream_id, cluster)
    others, silent = other_members(client)
    return replace(
        made,
        endpoints=(*client.section.endpoints, *others),
        silent=silent,
        problems=(*elsewhere, *made.problems),
        tidb=() if elsewhere else tidb_servers(client),
        pd_cluster_id=cluster,
    )


def changefeed_of_file(file: str, wanted: WantedChangefeed, *, endpoints: tuple[str, ...], brokers: str) -> ChosenChangefeed:
    """Where nobody here reaches PD. `endpoints`: of an etcd of the operator's. Raises as `chosen_changefeed`."""
    text = read_definition(file)
    name = name_in(text, cluster=wanted.cluster, namespace=wanted.namespace, id=wanted.id)
    chosen = changefeed(name, definition_in(text, name, place=file, brokers=brokers))
    return replace(_followed(chosen, key_values=False), endpoints=endpoints, file=file)


_FEEDS = {PUSH_SCHEME: "push", **dict.fromkeys(STORAGE_SCHEMES, "storage")}
"""By the scheme of the changefeed's sink."""


def _followed(chosen: Changefeed, *, key_values: bool) -> ChosenChangefeed:
    """What follows from the definition alone."""
    against = problems_of_key_values(chosen) if key_values else _of_the_sink(chosen)
    try:
        named = schemas_named(chosen.filter.rules)
        hidden = ddls_hidden(chosen)
    except (RefusedRequest, FeedUnsuitable):
        named, hidden = {"": list(chosen.filter.rules)}, False  # a filter that is not understood is among the problems
    return ChosenChangefeed(
        changefeed=chosen,
        feed="tikv" if key_values else _FEEDS.get(chosen.sink.scheme, "kafka"),
        endpoints=(),
        silent=(),
        problems=tuple(against),
        tidb=(),
        pd_cluster_id="",
        databases=tuple(schema for schema in named if schema),
        unnamed=tuple(named.get("", ())),
        ddls_hidden=hidden,
        no_marks=no_marks(chosen, encoded=not key_values),
    )


def _of_the_sink(changefeed: Changefeed) -> list[Problem]:
    try:
        against = problems(changefeed)
    except ConfigError as error:
        raise FeedUnsuitable(f"changefeed {changefeed.name}: {error.message}", hint=error.hint + KEY_VALUES_HINT) from error
    never = [problem for problem in against if problem.setting in _NEVER]
    if never:
        what = "; ".join(f"{problem.setting}: {problem.what}" for problem in never)
        hint = "; ".join(problem.hint for problem in never)
        raise FeedUnsuitable(f"changefeed {changefeed.name} cannot be dumped: {one_line(what)}", hint=hint + KEY_VALUES_HINT)
    return against


def _elsewhere(upstream: int, cluster: str) -> list[Problem]:
    """TiCDC can read another cluster than the one whose PD keeps its changefeeds; an upstream's id is that of its PD (tiflow
    pkg/upstream/upstream.go). Releases before 6.3 have none."""
    if not cluster or not upstream or str(upstream) == cluster:
        return []
    what = f"the changefeed reads cluster {upstream}, and this PD is of cluster {cluster}"
    return [Problem("upstream-id", what, "name a TiDB of the cluster that it reads, with --tidb")]
