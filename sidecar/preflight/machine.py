"""What the sidecar needs of its own machine: secrets, ports, the log's storage, the sinks, Spark.

- A port that is taken is fine where this changefeed's sidecar has it: a preflight is also run beside one that runs.
- The log is judged without claiming it: `changefeed.txt` is compared, never written. Without `Options.write` nothing is; with it
  the log's own probe of exclusive creation is, as at every start of a sidecar.
- A sink may not be ahead of the log: then the log was replaced, and the sink would refuse its first segment.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from importlib import metadata, util
from pathlib import Path

import grpc
from msgspec import Struct

from sidecar.console.listening import check_console
from sidecar.control.answers import EXIT_NOT_ALLOWED, EXIT_NOT_FOUND, EXIT_REFUSED, CallFailed
from sidecar.control.client import Access, ControlClient
from sidecar.run.beginning import check_beginning
from sidecar.run.completing import completing_dump, named
from sidecar.shared.config import ChangefeedSection, Config, ConsoleSection, ControlSection, SparkSection
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import ConfigError, SinkError, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.disjoint import check_disjoint
from sidecar.shared.log.identity import CHANGEFEED_NAME, known_id, name_of
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import kept, last_manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.log.spill import folder_problem
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import TableName, TableSchema, carried, complete_since
from sidecar.shared.process.addresses import ANSWER_S, AddressHolder, address
from sidecar.shared.process.checks import CheckFinding, Checking, CheckSkipped, CheckStatus, failed, listed, of_error, ok, warning
from sidecar.shared.process.listening import check_listening, read_token
from sidecar.shared.process.patience import patience
from sidecar.shared.ticdc.changefeed import ChangefeedName
from spark_merge.log.follow import check_has
from spark_merge.log.read import read_schemas
from spark_merge.sinks.registry import holds_rows, idle_rules, misfits, open_sink, output_of, outputs_of
from spark_merge.sinks.registry import name_of as shown
from ticdc_dump.v1 import control_pb2 as pb

ANSWER_BYTES_MAX = 1024
JAVA_MIN = 17
"""Spark 4's own."""
JAVA_ANSWER_S = 20.0
SINK_PATIENCE_S = 5.0
"""For a sink that does not answer: a person waits."""
FREE_TIGHT = 10
"""Times what may be written at once: less than that is a warning."""
_JAVA_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


# ---- settings -------------------------------------------------------------------------------------------------------


def secrets(config: Config) -> Checking[None]:
    """Every file that a setting names."""
    given = dict(_files(config))
    for setting, path in given.items():
        try:
            text = read_secret(path)
        except TicdcDumpError as error:
            yield of_error(error, setting=setting)
        else:
            if not text:
                yield failed(f"{path} is empty", setting=setting, hint="write the secret into it, or take the setting out")
    yield ok(f"{len(given)} files of secrets and certificates are named")


def _files(section: Struct, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every file that a setting names, whichever section it is in, with the setting's name."""
    for name in section.__struct_fields__:
        setting = getattr(section, name)
        if isinstance(setting, Struct):
            yield from _files(setting, f"{prefix}{name}.")
        elif name.endswith("_file") and setting:
            yield f"{prefix}{name}", setting


def control(section: ControlSection, name: ChangefeedSection) -> Checking[None]:
    token = read_token("control", section)
    check_listening("control", section.listen, section.tls, has_token=bool(token))
    yield address("control.listen", section.listen, partial(_control_of, section.listen, name, token), tls=bool(section.tls.cert_file))


def _control_of(listen: str, name: ChangefeedSection, token: str) -> AddressHolder:
    """The control service of this changefeed answers, whether it is the owner or a standby."""
    if not _speaks_grpc(listen):
        return AddressHolder.NONE_OF_OURS
    request = pb.DumpRequest(changefeed=pb.Changefeed(namespace=name.namespace, id=name.id))
    try:
        with ControlClient(listen, Access(token=token, patience_s=ANSWER_S)) as client:
            client.call("Query", request)
    except CallFailed as error:
        if error.exit_code not in (EXIT_REFUSED, EXIT_NOT_ALLOWED):
            return AddressHolder.ANOTHERS if error.exit_code == EXIT_NOT_FOUND else AddressHolder.NONE_OF_OURS
    return AddressHolder.OURS


def _speaks_grpc(listen: str) -> bool:
    with grpc.insecure_channel(listen, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_S)
        except grpc.FutureTimeoutError:
            return False
    return True


def metrics(listen: str) -> Checking[None]:
    yield (
        address("metrics.listen", listen, partial(_metrics_of, listen), hint=", or '' for no metrics") if listen else ok("metrics are off")
    )


def console(section: ConsoleSection, name: ChangefeedSection) -> Checking[None]:
    """One that cannot listen is a warning: the stream runs without pages."""
    check_console(section)
    if not section.listen:
        yield ok("the console is off")
        return
    hint = ", or '' for no console"
    finding = address(
        "console.listen", section.listen, partial(_console_of, section.listen, name), tls=bool(section.tls.cert_file), hint=hint
    )
    yield replace(finding, status=CheckStatus.WARNING) if finding.status is CheckStatus.FAILED else finding


def _console_of(listen: str, name: ChangefeedSection) -> AddressHolder:
    said = _answer_of(f"http://{listen}/healthz")
    if said == f"console of {name.namespace}/{name.id}":
        return AddressHolder.OURS
    return AddressHolder.ANOTHERS if said.startswith("console of ") else AddressHolder.NONE_OF_OURS


def _metrics_of(listen: str) -> AddressHolder:
    """A sidecar's; of which changefeed, its health does not say."""
    return AddressHolder.OURS if _answer_of(f"http://{listen}/healthz") in ("owner", "standby") else AddressHolder.NONE_OF_OURS


def _answer_of(url: str) -> str:
    """Its first line; empty for none."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=ANSWER_S) as answer:
            return str(answer.readline(ANSWER_BYTES_MAX).decode(errors="replace").strip())
    except (OSError, ValueError):
        return ""


# ---- the log --------------------------------------------------------------------------------------------------------


def log(uri: str, log_id: str, *, write: bool) -> Checking[Manifest | None]:
    """Whose it is, whether it is whole, and (if writing is allowed) that it can be written and that its fence holds."""
    folder = storage.log_folder(uri)
    owner = storage.read_files(folder, [CHANGEFEED_NAME]).get(CHANGEFEED_NAME, b"").decode(errors="replace")
    if owner and owner != log_id:
        what = f"{folder} is the log of changefeed {owner}, and this one is {log_id}"
        hint = "give each changefeed a folder of its own; a changefeed that was removed and made again is a new one"
        yield failed(what, setting="log.uri", hint=hint)
        return None
    last = FolderLog(folder).recover(epoch=0) if write else last_manifest(folder)
    how = "writable, files are created exclusively" if write else "readable; writing was not tried (--no-write)"
    held = f"{last.seq + 1} segments, the last one of epoch {last.epoch}" if last else "new"
    yield ok(f"{folder}: {how}; {held}")
    return last


def space(config: Config) -> Checking[None]:
    """Of local disks; an object store has no end."""
    folder = storage.log_folder(config.log.uri)
    places = {"log.spill_folder": (config.log.spill_folder or tempfile.gettempdir(), config.log.held_bytes_max)}
    if folder.protocol == "file":
        places["log.uri"] = (folder.root, config.dump.chunk_bytes_max + config.log.held_bytes_max)
    for setting, (path, needed) in places.items():
        existing = next(parent for parent in (Path(path).absolute(), *Path(path).absolute().parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        what = f"{path}: {_bytes(free)} free, {_bytes(needed)} may be written at once"
        made_by_us = setting == "log.uri"
        if why := folder_problem(str(existing) if made_by_us else path):
            yield failed(f"{path} cannot be written: {why}", setting=setting, hint="give a folder of a local disk")
        elif free < needed:
            yield failed(what, setting=setting, hint="make room, or lower dump.chunk_bytes_max and log.held_bytes_max")
        elif free < FREE_TIGHT * needed:
            yield warning(what, setting=setting, hint="make room: the log grows until the sinks have accepted its segments")
        else:
            yield ok(what)


def _bytes(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):,.0f} MiB"


# ---- sinks and Spark --------------------------------------------------------------------------------------------------


def sinks(config: Config, log_id: str) -> Checking[frozenset[int]]:
    """Whether each output can continue with this log: it is this log's, or new. The numbers of those that can. A sink that is as it should
    be has one finding."""
    try:
        check_disjoint(config.log.uri, config.sinks)
        with suppress(SinkError):  # of one sink, which says so itself below
            outputs_of(config.sinks)
    except ConfigError as error:
        yield of_error(error, setting="log.uri, sinks")
        return frozenset()
    folder = storage.log_folder(config.log.uri)
    name = name_of(log_id, known_id(folder))
    fit = set[int]()
    for number, uri in enumerate(config.sinks, 1):
        setting = f"sinks (number {number})"
        try:
            with patience(SINK_PATIENCE_S), closing(open_sink(uri, log_id=name)) as sink:
                accepted = sink.look()
            if accepted is not None:
                check_has(folder, accepted)
        except (SinkError, ConfigError) as error:
            yield of_error(error, setting=setting)
            continue
        fit.add(number)
        sink_text = f"sink {number} ({shown(uri)})"
        if accepted is None:
            yield _begins(folder, sink_text, shown(uri), setting)
            continue
        try:
            yield _tables_of(folder, f"{sink_text}: has accepted segment {accepted.seq}", uri, config.changefeed, setting)
        except SinkError as error:
            yield of_error(error, setting="log.uri")
    if len(fit) == len(config.sinks) and last_manifest(folder) is None:
        try:
            check_beginning(config, log_id, lambda uri, log_id: holds_rows(uri, log_id=log_id))
        except TicdcDumpError as error:
            yield of_error(error, setting="kafka.begin, push.begin")
    return frozenset(fit)


def _tables_of(log: Folder, sink_text: str, uri: str, changefeed: ChangefeedSection, setting: str) -> CheckFinding:
    """Of a sink that has segments: which tables it has whole, by what its worker has recorded of this output. What it recorded of another
    one under the same name says nothing of this one (spark_merge/delivery/sink_record.py)."""
    sink = shown(uri)
    known = read_sink_tables(log, [sink]).get(sink)
    last = last_manifest(log)
    if known is not None and known.output != output_of(uri):
        what = f"{sink_text}; its name was that of {known.output}: none of this output's tables counts as complete"
        return warning(what, setting=setting, hint=f"give each output a name of its own, or dump: dumpstart --sink {shlex.quote(sink)}")
    if known is None or last is None:
        return warning(
            f"{sink_text}; which tables it has whole is not recorded yet", setting=setting, hint="start the sidecar, then check again"
        )
    tables = carried(read_schemas(log, last.next_schemas or last.schemas))
    if lacking := known.incomplete(tables):
        name = ChangefeedName(changefeed.cluster, changefeed.namespace, changefeed.id)
        what = f"{sink_text}; {len(lacking):,} of {len(tables):,} tables are not complete: {named(lacking)}"
        return warning(what, setting=setting, hint=completing_dump(name, [sink], lacking))
    each = named([f"{table} {complete_since(known.complete[table])}" for table in tables])
    return ok(f"{sink_text}; all {len(tables):,} tables are complete", detail=each)


def _begins(log: Folder, sink_text: str, sink: str, setting: str) -> CheckFinding:
    """Of a sink that has nothing of this log."""
    if not (first := kept(log).start):
        return ok(f"{sink_text}: new")
    return warning(
        f"{sink_text}: new, and the log has segments from {first} on only: its tables will lack the rows from before",
        setting=setting,
        hint=f"once the sidecar runs with it, start a dump of the tables that it is to have: dumpstart --sink {shlex.quote(sink)}",
    )


def targets(config: Config, log_id: str, tables: Mapping[TableName, TableSchema], fit: Collection[int]) -> Checking[None]:
    """Whether each sink's target can take rows of the changefeed's tables. `fit`: the numbers of the sinks that answer."""
    name = name_of(log_id, known_id(storage.log_folder(config.log.uri)))
    fit_sinks = [(number, uri) for number, uri in enumerate(config.sinks, 1) if number in fit]
    if not fit_sinks:
        raise CheckSkipped("no sink can be queried: see 'sinks'")
    fine: list[str] = []
    for number, uri in fit_sinks:
        try:
            with patience(SINK_PATIENCE_S):
                problems = misfits(uri, list(tables.values()), log_id=name)
        except SinkError as error:
            yield of_error(error, setting=f"sinks (number {number})")
            continue
        for what, hint in problems:
            yield failed(what, setting=f"sinks (number {number})", hint=hint)
        if idle := idle_rules(uri, tables.values()):
            yield warning(
                f"{listed(idle)} of {shown(uri)} match no column of any table",
                setting=f"sinks (number {number})",
                hint="correct the rule, unless its column is yet to come",
            )
        if not problems:
            fine.append(shown(uri))
    if fine:
        yield ok(f"nothing is against rows of {len(tables):,} tables in {listed(fine)}")


def spark(section: SparkSection) -> Checking[None]:
    """Java and pyspark are here."""
    if not section.managed:
        raise CheckSkipped("spark.managed is false: the merge worker runs elsewhere", hint="run this check with the same settings there")
    if util.find_spec("pyspark") is None:
        yield failed("pyspark cannot be imported", setting="pip install pyspark", hint="install ticdc-dump with its dependencies")
        return
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    hint = f"install a JDK or JRE of {JAVA_MIN} or later, and set JAVA_HOME to it or put it on the PATH"
    if java is None or not os.access(java, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        yield failed(where, setting="JAVA_HOME", hint=hint)
        return
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWER_S, check=False)
    match = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    version = int(match[2] if match[1] == "1" and match[2] else match[1]) if match else 0
    if version < JAVA_MIN:
        first = (answer.stderr + answer.stdout).strip().partition("\n")[0]
        yield failed(f"{java} is {first or 'no Java'}, and Spark needs {JAVA_MIN} or later", setting="JAVA_HOME", hint=hint)
        return
    yield ok(f"Java {version} ({java}), pyspark {metadata.version('pyspark')}")
