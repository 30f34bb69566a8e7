"""The shape of the code, as a test: who may import whom, sizes that fit in a head, every file tested. Pages are test_maps.py's."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sidecar.shared.codecs.registry import PROTOCOLS
from tests.support.each import each

ROOT = Path(__file__).parents[1]
GENERATED = ("_pb2.py", "_pb2_grpc.py")
PRODUCT = sorted(p for top in ("sidecar", "spark_merge") for p in (ROOT / top).rglob("*.py") if not p.name.endswith(GENERATED))

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
"""Style aims at 300 lines a file; 400 is where a reader gives up."""

ARGUMENTS_MAX = 6
_SHARED = {
    "errors": "",
    "sql": "",
    "model": "sql errors",
    "config_errors": "errors",
    "config_forms": "",
    "config_files": "errors",
    "config": "config_forms config_errors model errors",
    "process": "config config_files errors",
    "schema": "sql model errors",
    "partition": "schema sql model errors",
    "rowcodec": "schema sql model errors",
    "codecs": "rowcodec sql model errors",
    "ticdc": "codecs schema sql model errors",
    "log": "process model errors",
    "columns": "log rowcodec model errors",
    "resultset": "log model errors",
    "mysql": "resultset process config config_files model errors",
    "tikv": "rowcodec process config model errors",
    "reads": "columns tikv mysql resultset log rowcodec schema sql process config model errors",
}
"""What both processes are built from: sidecar/shared."""
_BELOW = {
    **{f"shared.{room}": " ".join(f"shared.{name}" for name in below.split()) for room, below in _SHARED.items()},
    "shared": "",
    "spark_merge.port": "shared",
    "spark_merge.codecs.images": "shared",
    "spark_merge.codecs.encode": "spark_merge.port shared",
    "spark_merge.codecs.protocols": "spark_merge.codecs.encode spark_merge.codecs.images shared",
    "spark_merge.codecs": "spark_merge.port shared",
    "spark_merge.log": "spark_merge.codecs spark_merge.port shared",
    "spark_merge.merge": "spark_merge.log spark_merge.codecs spark_merge.port shared",
    "spark_merge.delivery": "spark_merge.merge spark_merge.log spark_merge.codecs spark_merge.port shared",
    "spark_merge.ddl": "spark_merge.codecs spark_merge.port shared",
    "spark_merge.masks": "spark_merge.ddl spark_merge.codecs spark_merge.port shared",
    "spark_merge.sinks": "spark_merge.masks spark_merge.ddl spark_merge.merge spark_merge.log spark_merge.codecs spark_merge.port shared",
    "spark_merge.verify": "spark_merge.sinks spark_merge.delivery spark_merge.log spark_merge.port shared",
    "spark_merge.tail": "spark_merge.verify spark_merge.sinks spark_merge.masks spark_merge.delivery spark_merge.merge spark_merge.log"
    " spark_merge.port shared",
    "spark_merge.worker": "spark_merge.verify spark_merge.sinks spark_merge.delivery spark_merge.merge spark_merge.log spark_merge.port"
    " shared",
    "spark_merge.testing": "spark_merge.sinks spark_merge.delivery spark_merge.merge spark_merge.port shared",
    "spark_merge": "",
    "core": "shared.model shared.sql shared.errors",
    "pace": "core shared.model",
    "binlog": "shared.model shared.errors",
    "history": "shared.model shared.errors",
    "report": "history core shared",
    "ports": "history shared",
    "pipeline": "core pace history ports shared",
    "adapters": "history ports binlog core shared",
    "feeds": "adapters ports binlog core shared",
    "watch": "adapters shared",
    "control": "report.figures adapters history ports pace core shared",
    "console": "report control history adapters.clock core shared",
    "run": "console control watch feeds adapters pipeline report history ports binlog pace core shared",
    "pump": "feeds adapters binlog shared",
    "setup": "adapters shared",
    "preflight": "setup run console control watch feeds adapters core shared spark_merge",
    "replay.judge": "shared spark_merge.port spark_merge.sinks spark_merge.ddl",
    "replay": "run.certifying run.log_event run.dump_reports run.samples control.status report feeds adapters pipeline history ports"
    " pace core shared spark_merge",
    "cli": "pump replay report preflight setup run control adapters history core shared spark_merge",
    "__main__": "cli",
}
"""A line a room, lowest first: the rooms that it may look into, besides itself. Each names only rooms above its own line, so no
arrow runs up and there is no circle. Nothing else lies loose. The longest prefix of a module's name decides. Three houses: what is shared,
the merge worker, which sees nothing else of `sidecar`, and the sidecar."""


def _whole(name: str) -> str:
    return name if name.startswith("spark_merge") else f"sidecar.{name}"


ROOMS = {_whole(room): [_whole(name) for name in below.split()] for room, below in _BELOW.items()}

WALLS = {
    "pyspark": "spark_merge.worker.session spark_merge.worker.spark_sql spark_merge.worker.daemon sidecar.preflight.executors",
    "py4j": "spark_merge.worker.session spark_merge.worker.spark_sql sidecar.preflight.executors",
    "fsspec": "sidecar.shared.log.storage",
    "s3fs": "sidecar.shared.log.storage",
    "botocore": "sidecar.shared.log.storage",
    "aiohttp": "sidecar.shared.log.storage",
    "deltalake": "spark_merge.sinks.delta",
    "pyiceberg": "spark_merge.sinks.iceberg",
    "sqlalchemy": "spark_merge.sinks.iceberg",
    "pymysql": "sidecar.shared.mysql sidecar.shared.resultset sidecar.shared.reads sidecar.adapters.tidb sidecar.preflight.source "
    "spark_merge.sinks.mysql",
    "grpc": "sidecar.shared.process sidecar.control sidecar.feeds.push sidecar.shared.tikv sidecar.feeds.tikv sidecar.feeds.binlog "
    "sidecar.adapters.tidb.remote_reads spark_merge.worker.read_task "
    "sidecar.adapters.etcd sidecar.pump sidecar.preflight",
    "etcd3": "sidecar.adapters.etcd",
    "opensearchpy": "spark_merge.sinks.opensearch",
    "confluent_kafka": "sidecar.feeds.kafka sidecar.shared.process.librdkafka spark_merge.sinks.kafka",
    "typer": "sidecar.cli",
    "rich": "sidecar.cli",
    "prometheus_client": "sidecar.run.metrics sidecar.pump.metrics",
    "starlette": "sidecar.console",
    "uvicorn": "sidecar.console",
    "jinja2": "sidecar.console sidecar.report",
    "polars": "spark_merge.codecs.encode spark_merge.sinks.formats spark_merge.verify spark_merge.worker.daemon",
    "clickhouse_connect": "spark_merge.sinks.clickhouse",
    "re2": "sidecar.shared.ticdc",
    "urllib3": "spark_merge.sinks.http spark_merge.sinks.clickhouse spark_merge.sinks.kafka.schema_registry",
    "structlog": "sidecar.run",
}
"""Who may import a third party's library. A sink's folder may import its own driver: give the driver a line here."""

PURE = (
    "sidecar.shared.sql", "sidecar.shared.model", "sidecar.shared.schema", "sidecar.shared.rowcodec", "sidecar.shared.codecs",
    "sidecar.shared.ticdc", "sidecar.core", "sidecar.history", "sidecar.binlog", "sidecar.pace", "sidecar.feeds.kafka.rounds",
    "sidecar.feeds.kafka.lanes", "sidecar.feeds.binlog.joining", "spark_merge.sinks.kafka.claims",
    "spark_merge.sinks.kafka.position_records",
)  # fmt: skip
IMPURE_MODULES = {"time", "random", "os", "logging", "socket", "threading", "subprocess", "asyncio", "secrets", "tempfile", "pathlib"}
PURE_LIBRARIES = {"msgspec", "cramjam", "fastavro", "re2", "google", "ticdc_dump"}
"""What the pure rooms but the core may use besides the standard library: one JSON library, TiCDC's compressions, Go's regexes and
protobuf's messages."""
CORE_FILES_MAX = 10


TESTED_THROUGH = {
    "sidecar.run.term_repairs": "tests/unit/run/test_term_verifications.py",
    "sidecar.run.verification_texts": "tests/unit/run/test_term_verifications.py",
    "sidecar.cli.init_view": "tests/unit/cli/test_init.py",
    "sidecar.setup.findings": "tests/unit/cli/test_init.py",
    "sidecar.shared.config_forms": "tests/unit/test_config.py",
    "sidecar.feeds.encoded.keys": "tests/unit/feeds/test_encoded_read_rows.py",
    "sidecar.shared.columns.canal_json": "tests/contract/test_protocols.py",
    "sidecar.shared.columns.open_protocol": "tests/contract/test_protocols.py",
    "sidecar.feeds.around": "tests/unit/feeds/test_encoded_claims.py",
    "sidecar.feeds.binlog.backlog": "tests/unit/feeds/test_binlog_streams.py",
    "sidecar.feeds.binlog.notify": "tests/unit/feeds/test_binlog_streams.py",
    "sidecar.shared.reads.ddl_jobs": "tests/unit/adapters/test_tidb_snapshot.py",
    "sidecar.shared.reads.indexes": "tests/unit/adapters/test_tidb_schema.py",
    "sidecar.control.preview": "tests/unit/control/test_service.py",
    "sidecar.feeds.push.make": "tests/unit/feeds/test_kv_make.py",
    "sidecar.feeds.push.session": "tests/unit/feeds/test_push_puller.py",
    "sidecar.feeds.tikv.make": "tests/unit/feeds/test_kv_make.py",
    "sidecar.shared.log.storage.errors": "tests/unit/log/test_errors.py",
    "sidecar.shared.process.librdkafka": "tests/unit/feeds/test_kafka_feed.py",
    "sidecar.shared.rowcodec.kv_table_fields": "tests/unit/rowcodec/test_kv_table_fields.py",
    "sidecar.pump.metrics": "tests/integration/test_pump.py",
    "sidecar.pump.node": "tests/integration/test_pump.py",
    "sidecar.pump.pages": "tests/integration/test_pump.py",
    "sidecar.pump.service": "tests/integration/test_pump.py",
    "sidecar.pump.tikv": "tests/integration/test_pump.py",
    "sidecar.report.templates": "tests/unit/report/test_build.py",
    "sidecar.shared.schema.tables": "tests/unit/schema/test_schema_history.py",
    "spark_merge.codecs.decode.binlog_walk": "tests/property/test_binlog_decoders.py",
    "spark_merge.codecs.decode.row_types": "tests/contract/test_protocols.py",
    "spark_merge.port.foreign": "tests/unit/merge/test_loop.py",
    "sidecar.shared.columns.kv_handles": "tests/unit/decode/test_kv.py",
    "spark_merge.sinks.iceberg.reading": "tests/unit/sinks/test_lake_sink.py",
    "spark_merge.sinks.clickhouse.block": "tests/integration/test_clickhouse_ddl.py",
    "spark_merge.sinks.clickhouse.tables": "tests/integration/test_clickhouse_ddl.py",
    "spark_merge.sinks.spool.writer": "tests/unit/sinks/test_spool.py",
    "spark_merge.sinks.storage.publish": "tests/contract/test_positions.py",
    "spark_merge.sinks.memory.reading": "tests/contract/test_sink_port.py",
    "spark_merge.ddl.alter_table": "tests/unit/ddl/test_parser.py",
    "spark_merge.ddl.column_syntax": "tests/unit/ddl/test_parser.py",
    "spark_merge.ddl.partition_syntax": "tests/unit/ddl/test_parser.py",
    "spark_merge.codecs.encode.runs": "tests/unit/sinks/test_spool_frames.py",
    "spark_merge.sinks.iceberg.modes": "tests/contract/test_iceberg_sink.py",
    "spark_merge.sinks.iceberg.fold": "tests/contract/test_iceberg_merge.py",
    "spark_merge.sinks.iceberg.merge_writer": "tests/contract/test_iceberg_merge.py",
}
"""Parts of a module that only that module uses, each with the test of the module that goes through it: one step, no more."""

PORTS = {
    "Feed": ("sidecar/replay/feed.py::RecordingFeed", "tests/contract/test_feeds.py"),
    "Puller": ("sidecar/adapters/memory/puller.py::MemoryPuller", "tests/contract/test_pullers.py"),
    "SegmentLog": ("sidecar/adapters/memory/log.py::MemoryLog", "tests/contract/test_segment_log.py"),
    "Source": ("sidecar/replay/source.py::RecordedSource", "tests/contract/test_sources.py"),
    "ProgressStore": ("sidecar/adapters/memory/progress.py::MemoryProgress", "tests/contract/test_progress_store.py"),
    "OperationHistory": ("sidecar/adapters/memory/progress.py::MemoryHistory", "tests/contract/test_history.py"),
    "Ownership": ("sidecar/adapters/memory/owner.py::MemoryOwner", "tests/contract/test_ownership.py"),
    "Schemas": ("sidecar/adapters/memory/schemas.py::StillSchemas", None),
    "Requests": ("sidecar/replay/operator.py::Script", None),
    "Clock": ("sidecar/adapters/memory/clock.py::MemoryClock", None),
    "SchemaSource": (None, None),
    "Deliveries": (None, None),
    "Sightings": (None, None),
}
"""Each port's twin in memory, and the suite that the twin and the real thing pass. Without a twin: what a dump can do without."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    results: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            results |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            results |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(results)


def within(name: str, packages: list[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_each_room_names_only_rooms_above_its_line() -> None:
    above: list[str] = []
    for room, allowed in ROOMS.items():
        wrong = [name for name in allowed if not within(name, above)]
        assert not wrong, f"{room} names {wrong}, which come later"
        above.append(room)


@each(PRODUCT)
def test_imports_point_downwards(path: Path) -> None:
    module = module_name(path)
    room = max((prefix for prefix in ROOMS if within(module, [prefix])), key=len, default=None)
    if module == "sidecar":
        assert not imports(path), "the package's face imports nothing"
        return
    assert room is not None, f"{module} has no place in ROOMS: nothing lies loose but what the reading path needs"
    allowed = [room, *ROOMS[room]]
    ours = {name for name in imports(path) if within(name, ["sidecar", "spark_merge", "tests"])}
    wrong = {name for name in ours if not within(name, allowed) and not any(within(package, [name]) for package in allowed)}
    assert not wrong, f"{module} may not import {sorted(wrong)}"


@each([path for path in PRODUCT if module_name(path).startswith("sidecar.feeds.")])
def test_only_what_makes_or_checks_a_feed_knows_the_adapters(path: Path) -> None:
    assert path.name in ("make.py", "checks.py") or not any(within(name, ["sidecar.adapters"]) for name in imports(path))


def test_there_is_no_circle_among_modules() -> None:
    """Two modules that import each other are one, whatever their rooms: also inside a room."""
    by_name = {module_name(path): path for path in PRODUCT}
    edges = {name: {text for text in imports(path) if text in by_name and text != name} for name, path in by_name.items()}
    left = dict(edges)
    while free := [name for name, results in left.items() if not results & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"these import each other: {sorted(left)}"


@each(PRODUCT)
def test_libraries_stay_behind_their_walls(path: Path) -> None:
    module = module_name(path)
    used = {name.split(".")[0] for name in imports(path)} & WALLS.keys()
    wrong = {library: WALLS[library] for library in used if not within(module, WALLS[library].split())}
    assert not wrong, f"{module} uses what others stand for: {wrong}"


CONNECTS = re.compile(r"pymysql\.(connect|Connection|connections\.\w+)")


@each(PRODUCT)
def test_connections_over_mysqls_protocol_are_made_in_one_place(path: Path) -> None:
    """A session that sidecar/shared/mysql does not set up reads by the server's own limits. A type of a connection is an annotation."""
    called = {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)} | imports(path)
    made = [name for name in called if CONNECTS.fullmatch(name)]
    assert not made or module_name(path) == "sidecar.shared.mysql.session", f"{module_name(path)} opens a connection of its own: {made}"


CUTS_SQL = re.compile(r"\[\^[^\]]*[`'][^\]]*\]")
NO_STATEMENT = {
    "sidecar.shared.ticdc.table_rules": "TiCDC's table rules",
    "sidecar.cli.dump_options": "a table before a colon, quoted as in a table rule",
    "sidecar.preflight.source": "a line of SHOW GRANTS",
    "sidecar.shared.reads.tables": "MariaDB's check of a JSON column",
    "spark_merge.sinks.mysql.ddl_picture": "the beginning of SHOW CREATE TABLE",
}
"""What has quotes, is of one form, and is no statement or expression of somebody's."""


@each(PRODUCT)
def test_sql_is_cut_in_one_place(path: Path) -> None:
    module = module_name(path)
    results = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant) and CUTS_SQL.search(str(node.value))]
    assert not results or module in NO_STATEMENT or within(module, ["sidecar.shared.sql"]), (
        f"{path}:{results[0].lineno}: read sidecar.shared.sql's tokens"
    )


PLAIN_WORDS = {"open", "default"}
"""Names of protocols that mean other things too."""


@each(PRODUCT)
def test_nothing_compares_a_protocols_name(path: Path) -> None:
    """What differs between protocols is in their records (sidecar/shared/codecs/registry.py) and their modules."""
    names = {name for one in PROTOCOLS for name in (one.name, *one.aliases)} - PLAIN_WORDS
    requested = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Compare | ast.MatchValue)]
    results = [node for node in requested if any(isinstance(one, ast.Constant) and one.value in names for one in ast.walk(node))]
    assert not results, f"{path}:{results[0].lineno}: ask the protocol's record"


THREADS = {"sidecar.shared.process.background", "spark_merge.worker.worker"}
"""Who makes threads by hand; each says why on the line. All others have `Background`, which lets none die unheard."""


@each(PRODUCT)
def test_threads_are_made_in_one_place(path: Path) -> None:
    named = any(ast.unparse(node) == "threading.Thread" for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute))
    assert module_name(path) in THREADS or not (named or "threading.Thread" in imports(path))


def test_the_core_holds_the_algorithm_only() -> None:
    assert len([path for path in PRODUCT if path.parent == ROOT / "sidecar" / "core"]) <= CORE_FILES_MAX


@each([path for path in PRODUCT if module_name(path).startswith(PURE)])
def test_what_decides_is_pure(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    assert not tops & IMPURE_MODULES, f"{module_name(path)} is pure and imports {sorted(tops & IMPURE_MODULES)}"
    libraries = {"sidecar"} | (set() if module_name(path).startswith("sidecar.core") else PURE_LIBRARIES)
    foreign = {top for top in tops if (spec := find_spec(top)) is None or "site-packages" in str(spec.origin)}
    assert not foreign - libraries, f"{module_name(path)} is pure and imports {sorted(foreign - libraries)}"


@each(PRODUCT)
def test_files_and_functions_fit_in_a_head(path: Path) -> None:
    assert path.read_text().count("\n") <= FILE_LINES_MAX, f"{path} is too long to hold"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{path}:{node.lineno} {node.name} has {lines} lines"


def test_a_class_name_occurs_once() -> None:
    """So that a name says which class it is, in a message as in a search. Names with an underscore stay in their file."""
    result: dict[str, list[str]] = {}
    for path in PRODUCT:
        for name in classes(path):
            if not name.startswith("_"):
                result.setdefault(name, []).append(module_name(path))
    assert not {name: modules for name, modules in result.items() if len(modules) > 1}


def test_constructors_take_few_arguments() -> None:
    """What a class needs more of is one thing with a name (a frozen dataclass, whose fields are no arguments here)."""
    many = {
        str(path.relative_to(ROOT))
        for path in PRODUCT
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) > 1 + ARGUMENTS_MAX
    }
    assert not many


@each([path for path in PRODUCT if path.name not in ("__init__.py", "__main__.py")])
def test_every_source_file_is_used_by_a_test(path: Path) -> None:
    """A test, or what tests are supported by, imports it; else TESTED_THROUGH names the test of the module that it is a part of."""
    module = module_name(path)
    if module not in TESTED_THROUGH:
        assert module in _imported_by_tests(), f"no test imports {module}: write one, or name the one that goes through it above"
        return
    assert module not in _imported_by_tests(), f"{module} has a test of its own: take it out of TESTED_THROUGH"
    through = imports(ROOT / TESTED_THROUGH[module])
    assert any(module in imports(user) for user in PRODUCT if module_name(user) in through), (
        f"{TESTED_THROUGH[module]} is not one step away"
    )


@cache
def _imported_by_tests() -> frozenset[str]:
    """Measurements assert nothing, so `tests/tools/bench` counts for nothing here."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "bench"]
    return frozenset().union(*map(imports, files))


def test_what_is_tested_through_others_exists() -> None:
    assert TESTED_THROUGH.keys() <= {module_name(path) for path in PRODUCT}


PURE_TESTS = [
    path for folder in ("unit", "property", "scenarios", "simulation", "model") for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
]
SERVERS = {
    "tests.support.services.clickhouse.ClickHouse",
    "tests.support.services.kafka.KafkaBroker",
    "tests.support.services.mariadb.MariaDb",
    "tests.support.services.opensearch.OpenSearchNode",
    "tests.support.services.etcd.Etcd",
    "tests.tools.rig.rig.Rig",
    "tests.tools.rig.sidecar_process.SidecarProcess",
    "pyspark.sql.SparkSession",
}


@each(PURE_TESTS)
def test_what_make_fast_runs_starts_no_server(path: Path) -> None:
    results = imports(path) & SERVERS
    assert not results, f"{path} uses {results}: it belongs to tests/integration or tests/spark"


_LOADED_ONE_BY_ONE = """
import importlib, sys, traceback
import sidecar.cli.environment, sidecar.shared.process.plain_arrow
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except BaseException:
        print(name, traceback.format_exc())
"""


def test_each_module_can_be_loaded() -> None:
    """Tests are chosen by the symbols that they use (tests/choice). A module that raises at its import fails here, also without a user."""
    names = "\n".join(module_name(path) for path in PRODUCT if path.name != "__main__.py")
    done = subprocess.run([sys.executable, "-c", _LOADED_ONE_BY_ONE], cwd=ROOT, input=names, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@each(PRODUCT)
def test_every_file_opens_with_its_rules(path: Path) -> None:
    """A package's says what its room is for."""
    assert ast.get_docstring(tree_of(path)), f"{path} does not say what it decides"


SINKS = {path.parent.name for path in (ROOT / "spark_merge" / "sinks").glob("*/sink.py")} | {"memory"}
LISTS_OF_SINKS = ("spark_merge.sinks.registry", "spark_merge.sinks.folders")
"""They name sinks by their URIs."""


@each([path for path in PRODUCT if module_name(path).startswith("spark_merge.sinks.")])
def test_no_sink_imports_another(path: Path) -> None:
    """What two of them need is in a package of its own."""
    module = module_name(path)
    others = [f"spark_merge.sinks.{name}" for name in SINKS - {module.split(".")[2]}]
    wrong = sorted(name for name in imports(path) if within(name, others))
    assert not wrong or module in LISTS_OF_SINKS, f"{module} may not import {wrong}"


@each([path for path in PRODUCT if path.name == "__init__.py"])
def test_a_package_names_each_of_its_modules(package: Path) -> None:
    """So its docstring is the way into it, and is read again when a module comes or goes."""
    parts = {path.stem for path in package.parent.glob("*.py")} | {path.parent.name for path in package.parent.glob("*/__init__.py")}
    text = ast.get_docstring(tree_of(package)) or ""
    unnamed = sorted(part for part in parts - {"__init__"} if not re.search(rf"\b{part}\b", text))
    assert not unnamed, f"{package} does not name {unnamed}"


_FILE = re.compile(r"(?<![\w./*}])(?:[a-z_]+/)*[a-z]\w*\.py\b")
FILES_OF_OTHERS = {"etcdrpc/kv_pb2.py", "auth_pb2.py", "rpc_pb2.py", "rpc_pb2_grpc.py"}
"""Of libraries, which a text of ours names."""


@each(PRODUCT)
def test_a_file_that_a_text_of_the_code_names_is_there(path: Path) -> None:
    """By its name, or by the end of its path: a reader follows it, and a file that is moved takes its readers' way with it."""
    named = set(_FILE.findall(path.read_text())) - FILES_OF_OTHERS
    gone = sorted(named - _ends_of_paths())
    assert not gone, f"{path} names {gone}"


@cache
def _ends_of_paths() -> frozenset[str]:
    """Of each Python file: its name, that with its folder, and so on."""
    paths = [file.relative_to(ROOT) for top in ("sidecar", "spark_merge", "tests", "deploy") for file in (ROOT / top).rglob("*.py")]
    return frozenset("/".join(path.parts[start:]) for path in paths for start in range(len(path.parts)))


def test_the_merge_worker_sees_of_the_sidecar_what_is_shared_and_nothing_else() -> None:
    for room, below in ROOMS.items():
        if within(room, ["spark_merge", "sidecar.shared"]):
            assert all(within(name, ["sidecar.shared", "spark_merge"]) for name in below), room
        if within(room, ["sidecar.shared"]):
            assert not any(within(name, ["spark_merge"]) for name in below), room


def classes(path: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree_of(path).body if isinstance(node, ast.ClassDef)}


def methods(class_def: ast.ClassDef) -> set[str]:
    return {node.name for node in class_def.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}


def test_ports_have_the_twins_and_suites_that_are_said() -> None:
    ports = {
        name: result for name, result in classes(ROOT / "sidecar" / "ports.py").items() if "Protocol" in map(ast.unparse, result.bases)
    }
    assert ports.keys() == PORTS.keys()
    for port, (twin, suite) in PORTS.items():
        if twin is None:
            continue
        file, _, name = twin.partition("::")
        assert methods(ports[port]) <= methods(classes(ROOT / file)[name]), f"{twin} is no {port}"
        assert suite is None or name in (ROOT / suite).read_text(), f"{suite} does not run on {name}"
