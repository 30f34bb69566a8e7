from ticdc_dump.v1 import delivery_pb2 as _delivery_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Brackets(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BRACKETS_UNSPECIFIED: _ClassVar[Brackets]
    BRACKETS_WATERMARK: _ClassVar[Brackets]
    BRACKETS_SNAPSHOT: _ClassVar[Brackets]

class CheckState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECK_STATE_UNSPECIFIED: _ClassVar[CheckState]
    CHECK_STATE_WAITING: _ClassVar[CheckState]
    CHECK_STATE_RUNNING: _ClassVar[CheckState]
    CHECK_STATE_EQUAL: _ClassVar[CheckState]
    CHECK_STATE_DIFFERENT: _ClassVar[CheckState]
    CHECK_STATE_SKIPPED: _ClassVar[CheckState]
    CHECK_STATE_FAILED: _ClassVar[CheckState]
    CHECK_STATE_STOPPED: _ClassVar[CheckState]
    CHECK_STATE_INCOMPLETE: _ClassVar[CheckState]

class RepairState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPAIR_STATE_UNSPECIFIED: _ClassVar[RepairState]
    REPAIR_STATE_RUNNING: _ClassVar[RepairState]
    REPAIR_STATE_FINISHED: _ClassVar[RepairState]
    REPAIR_STATE_FAILED: _ClassVar[RepairState]
    REPAIR_STATE_ASKS: _ClassVar[RepairState]

class OperationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATION_KIND_UNSPECIFIED: _ClassVar[OperationKind]
    OPERATION_KIND_DUMP: _ClassVar[OperationKind]
    OPERATION_KIND_VERIFICATION: _ClassVar[OperationKind]

class DumpState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUMP_STATE_UNSPECIFIED: _ClassVar[DumpState]
    DUMP_STATE_RUNNING: _ClassVar[DumpState]
    DUMP_STATE_PAUSED: _ClassVar[DumpState]
    DUMP_STATE_FINISHED: _ClassVar[DumpState]
    DUMP_STATE_FAILED: _ClassVar[DumpState]
    DUMP_STATE_STOPPED: _ClassVar[DumpState]
    DUMP_STATE_QUEUED: _ClassVar[DumpState]
BRACKETS_UNSPECIFIED: Brackets
BRACKETS_WATERMARK: Brackets
BRACKETS_SNAPSHOT: Brackets
CHECK_STATE_UNSPECIFIED: CheckState
CHECK_STATE_WAITING: CheckState
CHECK_STATE_RUNNING: CheckState
CHECK_STATE_EQUAL: CheckState
CHECK_STATE_DIFFERENT: CheckState
CHECK_STATE_SKIPPED: CheckState
CHECK_STATE_FAILED: CheckState
CHECK_STATE_STOPPED: CheckState
CHECK_STATE_INCOMPLETE: CheckState
REPAIR_STATE_UNSPECIFIED: RepairState
REPAIR_STATE_RUNNING: RepairState
REPAIR_STATE_FINISHED: RepairState
REPAIR_STATE_FAILED: RepairState
REPAIR_STATE_ASKS: RepairState
OPERATION_KIND_UNSPECIFIED: OperationKind
OPERATION_KIND_DUMP: OperationKind
OPERATION_KIND_VERIFICATION: OperationKind
DUMP_STATE_UNSPECIFIED: DumpState
DUMP_STATE_RUNNING: DumpState
DUMP_STATE_PAUSED: DumpState
DUMP_STATE_FINISHED: DumpState
DUMP_STATE_FAILED: DumpState
DUMP_STATE_STOPPED: DumpState
DUMP_STATE_QUEUED: DumpState

class SubscribeRequest(_message.Message):
    __slots__ = ("changefeed", "subscriber", "after_seq", "log")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    subscriber: str
    after_seq: int
    log: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., subscriber: _Optional[str] = ..., after_seq: _Optional[int] = ..., log: _Optional[str] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("changefeed", "subscriber", "seq", "log")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    subscriber: str
    seq: int
    log: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., subscriber: _Optional[str] = ..., seq: _Optional[int] = ..., log: _Optional[str] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Changefeed(_message.Message):
    __slots__ = ("namespace", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("changefeed", "dump_id", "table_rules", "brackets", "chunk_rows", "where", "keys", "readers", "rows_per_second", "bytes_per_second", "delivery_bound_seconds", "strict_bound", "sinks", "exact", "delete_at_most", "for_ddl", "holes")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_RULES_FIELD_NUMBER: _ClassVar[int]
    BRACKETS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_ROWS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STRICT_BOUND_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    DELETE_AT_MOST_FIELD_NUMBER: _ClassVar[int]
    FOR_DDL_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    dump_id: str
    table_rules: _containers.RepeatedScalarFieldContainer[str]
    brackets: Brackets
    chunk_rows: int
    where: _containers.RepeatedCompositeFieldContainer[TablePredicate]
    keys: _containers.RepeatedCompositeFieldContainer[TableKeys]
    readers: int
    rows_per_second: int
    bytes_per_second: int
    delivery_bound_seconds: float
    strict_bound: bool
    sinks: _containers.RepeatedScalarFieldContainer[str]
    exact: bool
    delete_at_most: int
    for_ddl: int
    holes: bool
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., dump_id: _Optional[str] = ..., table_rules: _Optional[_Iterable[str]] = ..., brackets: _Optional[_Union[Brackets, str]] = ..., chunk_rows: _Optional[int] = ..., where: _Optional[_Iterable[_Union[TablePredicate, _Mapping]]] = ..., keys: _Optional[_Iterable[_Union[TableKeys, _Mapping]]] = ..., readers: _Optional[int] = ..., rows_per_second: _Optional[int] = ..., bytes_per_second: _Optional[int] = ..., delivery_bound_seconds: _Optional[float] = ..., strict_bound: _Optional[bool] = ..., sinks: _Optional[_Iterable[str]] = ..., exact: _Optional[bool] = ..., delete_at_most: _Optional[int] = ..., for_ddl: _Optional[int] = ..., holes: _Optional[bool] = ...) -> None: ...

class DumpSettings(_message.Message):
    __slots__ = ("chunk_rows", "readers", "rows_per_second", "bytes_per_second", "delivery_bound_seconds", "strict_bound")
    CHUNK_ROWS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STRICT_BOUND_FIELD_NUMBER: _ClassVar[int]
    chunk_rows: int
    readers: int
    rows_per_second: int
    bytes_per_second: int
    delivery_bound_seconds: float
    strict_bound: bool
    def __init__(self, chunk_rows: _Optional[int] = ..., readers: _Optional[int] = ..., rows_per_second: _Optional[int] = ..., bytes_per_second: _Optional[int] = ..., delivery_bound_seconds: _Optional[float] = ..., strict_bound: _Optional[bool] = ...) -> None: ...

class SetRequest(_message.Message):
    __slots__ = ("changefeed", "settings", "dump_id")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    settings: DumpSettings
    dump_id: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., settings: _Optional[_Union[DumpSettings, _Mapping]] = ..., dump_id: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("changefeed", "settings", "dump_id")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    settings: DumpSettings
    dump_id: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., settings: _Optional[_Union[DumpSettings, _Mapping]] = ..., dump_id: _Optional[str] = ...) -> None: ...

class TablePredicate(_message.Message):
    __slots__ = ("schema", "table", "predicate")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    schema: str
    table: str
    predicate: str
    def __init__(self, schema: _Optional[str] = ..., table: _Optional[str] = ..., predicate: _Optional[str] = ...) -> None: ...

class TableKeys(_message.Message):
    __slots__ = ("schema", "table", "keys")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    schema: str
    table: str
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    def __init__(self, schema: _Optional[str] = ..., table: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("changefeed", "id", "table_rules", "where", "sinks", "sample", "dry_run", "repair", "delete_at_most")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_RULES_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    DELETE_AT_MOST_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    id: str
    table_rules: _containers.RepeatedScalarFieldContainer[str]
    where: _containers.RepeatedCompositeFieldContainer[TablePredicate]
    sinks: _containers.RepeatedScalarFieldContainer[str]
    sample: float
    dry_run: bool
    repair: bool
    delete_at_most: int
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., id: _Optional[str] = ..., table_rules: _Optional[_Iterable[str]] = ..., where: _Optional[_Iterable[_Union[TablePredicate, _Mapping]]] = ..., sinks: _Optional[_Iterable[str]] = ..., sample: _Optional[float] = ..., dry_run: _Optional[bool] = ..., repair: _Optional[bool] = ..., delete_at_most: _Optional[int] = ...) -> None: ...

class VerificationRequest(_message.Message):
    __slots__ = ("changefeed", "id", "brief")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    BRIEF_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    id: str
    brief: bool
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., id: _Optional[str] = ..., brief: _Optional[bool] = ...) -> None: ...

class Verification(_message.Message):
    __slots__ = ("changefeed", "id", "state", "asked_ms", "started_ms", "ended_ms", "sample", "tables", "left_out", "waiting_for", "repair", "rows_per_second", "remaining_s", "table_count", "tables_done", "rows", "differences")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    TABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TABLES_DONE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    id: str
    state: CheckState
    asked_ms: int
    started_ms: int
    ended_ms: int
    sample: float
    tables: _containers.RepeatedCompositeFieldContainer[CheckedTable]
    left_out: _containers.RepeatedCompositeFieldContainer[LeftOutSink]
    waiting_for: str
    repair: Repair
    rows_per_second: float
    remaining_s: float
    table_count: int
    tables_done: int
    rows: int
    differences: int
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., id: _Optional[str] = ..., state: _Optional[_Union[CheckState, str]] = ..., asked_ms: _Optional[int] = ..., started_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., sample: _Optional[float] = ..., tables: _Optional[_Iterable[_Union[CheckedTable, _Mapping]]] = ..., left_out: _Optional[_Iterable[_Union[LeftOutSink, _Mapping]]] = ..., waiting_for: _Optional[str] = ..., repair: _Optional[_Union[Repair, _Mapping]] = ..., rows_per_second: _Optional[float] = ..., remaining_s: _Optional[float] = ..., table_count: _Optional[int] = ..., tables_done: _Optional[int] = ..., rows: _Optional[int] = ..., differences: _Optional[int] = ...) -> None: ...

class Repair(_message.Message):
    __slots__ = ("state", "keys", "dumps", "followed_by", "error", "waiting_for", "deletes")
    STATE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DUMPS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_BY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    state: RepairState
    keys: int
    dumps: _containers.RepeatedScalarFieldContainer[str]
    followed_by: str
    error: str
    waiting_for: str
    deletes: _containers.RepeatedCompositeFieldContainer[RowsToDelete]
    def __init__(self, state: _Optional[_Union[RepairState, str]] = ..., keys: _Optional[int] = ..., dumps: _Optional[_Iterable[str]] = ..., followed_by: _Optional[str] = ..., error: _Optional[str] = ..., waiting_for: _Optional[str] = ..., deletes: _Optional[_Iterable[_Union[RowsToDelete, _Mapping]]] = ...) -> None: ...

class RowsToDelete(_message.Message):
    __slots__ = ("sink", "schema", "table", "rows", "at_most")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    sink: str
    schema: str
    table: str
    rows: int
    at_most: int
    def __init__(self, sink: _Optional[str] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., rows: _Optional[int] = ..., at_most: _Optional[int] = ...) -> None: ...

class LeftOutSink(_message.Message):
    __slots__ = ("sink", "why")
    SINK_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    sink: str
    why: str
    def __init__(self, sink: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class CheckedTable(_message.Message):
    __slots__ = ("sink", "schema", "table", "state", "rows", "rows_estimated", "equal", "missing", "extra", "different", "moving", "unlooked", "low_tso", "high_tso", "seconds", "columns", "examples", "why", "partial", "where", "parts", "parts_done", "duplicate", "expected", "unjudged", "look", "look_ms", "pending")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ROWS_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    EQUAL_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    DIFFERENT_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    UNLOOKED_FIELD_NUMBER: _ClassVar[int]
    LOW_TSO_FIELD_NUMBER: _ClassVar[int]
    HIGH_TSO_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PARTS_DONE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    UNJUDGED_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    LOOK_MS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    sink: str
    schema: str
    table: str
    state: CheckState
    rows: int
    rows_estimated: int
    equal: int
    missing: int
    extra: int
    different: int
    moving: int
    unlooked: int
    low_tso: int
    high_tso: int
    seconds: float
    columns: _containers.RepeatedCompositeFieldContainer[ColumnDifferences]
    examples: _containers.RepeatedCompositeFieldContainer[RowDifference]
    why: str
    partial: bool
    where: str
    parts: int
    parts_done: int
    duplicate: int
    expected: int
    unjudged: _containers.RepeatedCompositeFieldContainer[UnjudgedKinds]
    look: int
    look_ms: int
    pending: int
    def __init__(self, sink: _Optional[str] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., state: _Optional[_Union[CheckState, str]] = ..., rows: _Optional[int] = ..., rows_estimated: _Optional[int] = ..., equal: _Optional[int] = ..., missing: _Optional[int] = ..., extra: _Optional[int] = ..., different: _Optional[int] = ..., moving: _Optional[int] = ..., unlooked: _Optional[int] = ..., low_tso: _Optional[int] = ..., high_tso: _Optional[int] = ..., seconds: _Optional[float] = ..., columns: _Optional[_Iterable[_Union[ColumnDifferences, _Mapping]]] = ..., examples: _Optional[_Iterable[_Union[RowDifference, _Mapping]]] = ..., why: _Optional[str] = ..., partial: _Optional[bool] = ..., where: _Optional[str] = ..., parts: _Optional[int] = ..., parts_done: _Optional[int] = ..., duplicate: _Optional[int] = ..., expected: _Optional[int] = ..., unjudged: _Optional[_Iterable[_Union[UnjudgedKinds, _Mapping]]] = ..., look: _Optional[int] = ..., look_ms: _Optional[int] = ..., pending: _Optional[int] = ...) -> None: ...

class UnjudgedKinds(_message.Message):
    __slots__ = ("kinds", "why")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    why: str
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., why: _Optional[str] = ...) -> None: ...

class ColumnDifferences(_message.Message):
    __slots__ = ("column", "rows")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    column: str
    rows: int
    def __init__(self, column: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class RowDifference(_message.Message):
    __slots__ = ("kind", "key", "cells")
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    key: _containers.RepeatedScalarFieldContainer[str]
    cells: _containers.RepeatedCompositeFieldContainer[CellDifference]
    def __init__(self, kind: _Optional[str] = ..., key: _Optional[_Iterable[str]] = ..., cells: _Optional[_Iterable[_Union[CellDifference, _Mapping]]] = ...) -> None: ...

class CellDifference(_message.Message):
    __slots__ = ("column", "source", "sink")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    column: str
    source: str
    sink: str
    def __init__(self, column: _Optional[str] = ..., source: _Optional[str] = ..., sink: _Optional[str] = ...) -> None: ...

class Difference(_message.Message):
    __slots__ = ("sink", "schema", "table", "row")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    sink: str
    schema: str
    table: str
    row: RowDifference
    def __init__(self, sink: _Optional[str] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., row: _Optional[_Union[RowDifference, _Mapping]] = ...) -> None: ...

class DumpPreview(_message.Message):
    __slots__ = ("tables", "refusals", "seconds", "outside", "unasked", "sinks", "waits_for", "brackets", "no_marks")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    BRACKETS_FIELD_NUMBER: _ClassVar[int]
    NO_MARKS_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[TablePreview]
    refusals: _containers.RepeatedScalarFieldContainer[str]
    seconds: float
    outside: int
    unasked: int
    sinks: _containers.RepeatedScalarFieldContainer[str]
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    brackets: Brackets
    no_marks: str
    def __init__(self, tables: _Optional[_Iterable[_Union[TablePreview, _Mapping]]] = ..., refusals: _Optional[_Iterable[str]] = ..., seconds: _Optional[float] = ..., outside: _Optional[int] = ..., unasked: _Optional[int] = ..., sinks: _Optional[_Iterable[str]] = ..., waits_for: _Optional[_Iterable[str]] = ..., brackets: _Optional[_Union[Brackets, str]] = ..., no_marks: _Optional[str] = ...) -> None: ...

class TablePreview(_message.Message):
    __slots__ = ("schema", "table", "rows", "bytes", "read_by", "refused", "slow")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    READ_BY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SLOW_FIELD_NUMBER: _ClassVar[int]
    schema: str
    table: str
    rows: int
    bytes: int
    read_by: str
    refused: str
    slow: str
    def __init__(self, schema: _Optional[str] = ..., table: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., read_by: _Optional[str] = ..., refused: _Optional[str] = ..., slow: _Optional[str] = ...) -> None: ...

class DumpRequest(_message.Message):
    __slots__ = ("changefeed", "dump_id", "timeline_after_ms")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    dump_id: str
    timeline_after_ms: int
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., dump_id: _Optional[str] = ..., timeline_after_ms: _Optional[int] = ...) -> None: ...

class RestartRequest(_message.Message):
    __slots__ = ("changefeed", "new_dump_id", "dump_id")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    NEW_DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    new_dump_id: str
    dump_id: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., new_dump_id: _Optional[str] = ..., dump_id: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("namespace", "changefeed_id", "limit", "kind")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CHANGEFEED_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    changefeed_id: str
    limit: int
    kind: OperationKind
    def __init__(self, namespace: _Optional[str] = ..., changefeed_id: _Optional[str] = ..., limit: _Optional[int] = ..., kind: _Optional[_Union[OperationKind, str]] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("dumps", "changefeed", "operations")
    DUMPS_FIELD_NUMBER: _ClassVar[int]
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    dumps: _containers.RepeatedCompositeFieldContainer[DumpStatus]
    changefeed: Changefeed
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    def __init__(self, dumps: _Optional[_Iterable[_Union[DumpStatus, _Mapping]]] = ..., changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("id", "kind", "scope", "asked_by", "started_ms", "ended_ms", "state", "result", "rows", "bytes", "chunks", "seconds", "commands", "commands_before")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: OperationKind
    scope: OperationScope
    asked_by: Asker
    started_ms: int
    ended_ms: int
    state: DumpState
    result: str
    rows: int
    bytes: int
    chunks: int
    seconds: float
    commands: _containers.RepeatedCompositeFieldContainer[OperationCommand]
    commands_before: int
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[OperationKind, str]] = ..., scope: _Optional[_Union[OperationScope, _Mapping]] = ..., asked_by: _Optional[_Union[Asker, _Mapping]] = ..., started_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., state: _Optional[_Union[DumpState, str]] = ..., result: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., chunks: _Optional[int] = ..., seconds: _Optional[float] = ..., commands: _Optional[_Iterable[_Union[OperationCommand, _Mapping]]] = ..., commands_before: _Optional[int] = ...) -> None: ...

class OperationScope(_message.Message):
    __slots__ = ("tables", "table_count", "by_keys", "filtered", "sinks", "for_ddl_tso")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BY_KEYS_FIELD_NUMBER: _ClassVar[int]
    FILTERED_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    FOR_DDL_TSO_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedScalarFieldContainer[str]
    table_count: int
    by_keys: int
    filtered: int
    sinks: _containers.RepeatedScalarFieldContainer[str]
    for_ddl_tso: int
    def __init__(self, tables: _Optional[_Iterable[str]] = ..., table_count: _Optional[int] = ..., by_keys: _Optional[int] = ..., filtered: _Optional[int] = ..., sinks: _Optional[_Iterable[str]] = ..., for_ddl_tso: _Optional[int] = ...) -> None: ...

class OperationCommand(_message.Message):
    __slots__ = ("command", "asked_by", "at_ms")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    command: str
    asked_by: Asker
    at_ms: int
    def __init__(self, command: _Optional[str] = ..., asked_by: _Optional[_Union[Asker, _Mapping]] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Asker(_message.Message):
    __slots__ = ("name", "address", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class TableStatus(_message.Message):
    __slots__ = ("schema", "table", "chunks", "rows", "bytes", "rows_estimated", "complete_at_tso")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ROWS_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_AT_TSO_FIELD_NUMBER: _ClassVar[int]
    schema: str
    table: str
    chunks: int
    rows: int
    bytes: int
    rows_estimated: int
    complete_at_tso: int
    def __init__(self, schema: _Optional[str] = ..., table: _Optional[str] = ..., chunks: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., rows_estimated: _Optional[int] = ..., complete_at_tso: _Optional[int] = ...) -> None: ...

class DumpStatus(_message.Message):
    __slots__ = ("changefeed", "dump_id", "state", "reason", "brackets", "tables", "resolved_tso", "delivered_tso", "open_windows", "resolved_lag_s", "delivery_lag_s", "lanes", "waiting_for", "rows_per_second", "bytes_per_second", "eta_s", "epoch", "owner", "changes", "repeats", "segments", "merge_worker", "last_error", "ddls", "last_ddl_tso", "last_ddl", "settings", "sinks", "subscribers", "skipped_rows", "dump_sinks", "dumps", "ambiguous_timestamps", "timeline", "services", "read_with", "read_on", "verification", "for_ddl_tso", "stream_waiting_for")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BRACKETS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_TSO_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_TSO_FIELD_NUMBER: _ClassVar[int]
    OPEN_WINDOWS_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_LAG_S_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_LAG_S_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    ETA_S_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MERGE_WORKER_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    DDLS_FIELD_NUMBER: _ClassVar[int]
    LAST_DDL_TSO_FIELD_NUMBER: _ClassVar[int]
    LAST_DDL_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ROWS_FIELD_NUMBER: _ClassVar[int]
    DUMP_SINKS_FIELD_NUMBER: _ClassVar[int]
    DUMPS_FIELD_NUMBER: _ClassVar[int]
    AMBIGUOUS_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    READ_WITH_FIELD_NUMBER: _ClassVar[int]
    READ_ON_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    FOR_DDL_TSO_FIELD_NUMBER: _ClassVar[int]
    STREAM_WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    dump_id: str
    state: DumpState
    reason: str
    brackets: Brackets
    tables: _containers.RepeatedCompositeFieldContainer[TableStatus]
    resolved_tso: int
    delivered_tso: int
    open_windows: int
    resolved_lag_s: float
    delivery_lag_s: float
    lanes: _containers.RepeatedCompositeFieldContainer[LaneStatus]
    waiting_for: str
    rows_per_second: float
    bytes_per_second: float
    eta_s: float
    epoch: int
    owner: str
    changes: int
    repeats: int
    segments: int
    merge_worker: str
    last_error: str
    ddls: int
    last_ddl_tso: int
    last_ddl: str
    settings: DumpSettings
    sinks: _containers.RepeatedCompositeFieldContainer[SinkStatus]
    subscribers: _containers.RepeatedCompositeFieldContainer[SubscriberStatus]
    skipped_rows: int
    dump_sinks: _containers.RepeatedScalarFieldContainer[str]
    dumps: _containers.RepeatedCompositeFieldContainer[DumpSummary]
    ambiguous_timestamps: int
    timeline: Timeline
    services: _containers.RepeatedCompositeFieldContainer[ServiceStatus]
    read_with: str
    read_on: str
    verification: Verification
    for_ddl_tso: int
    stream_waiting_for: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., dump_id: _Optional[str] = ..., state: _Optional[_Union[DumpState, str]] = ..., reason: _Optional[str] = ..., brackets: _Optional[_Union[Brackets, str]] = ..., tables: _Optional[_Iterable[_Union[TableStatus, _Mapping]]] = ..., resolved_tso: _Optional[int] = ..., delivered_tso: _Optional[int] = ..., open_windows: _Optional[int] = ..., resolved_lag_s: _Optional[float] = ..., delivery_lag_s: _Optional[float] = ..., lanes: _Optional[_Iterable[_Union[LaneStatus, _Mapping]]] = ..., waiting_for: _Optional[str] = ..., rows_per_second: _Optional[float] = ..., bytes_per_second: _Optional[float] = ..., eta_s: _Optional[float] = ..., epoch: _Optional[int] = ..., owner: _Optional[str] = ..., changes: _Optional[int] = ..., repeats: _Optional[int] = ..., segments: _Optional[int] = ..., merge_worker: _Optional[str] = ..., last_error: _Optional[str] = ..., ddls: _Optional[int] = ..., last_ddl_tso: _Optional[int] = ..., last_ddl: _Optional[str] = ..., settings: _Optional[_Union[DumpSettings, _Mapping]] = ..., sinks: _Optional[_Iterable[_Union[SinkStatus, _Mapping]]] = ..., subscribers: _Optional[_Iterable[_Union[SubscriberStatus, _Mapping]]] = ..., skipped_rows: _Optional[int] = ..., dump_sinks: _Optional[_Iterable[str]] = ..., dumps: _Optional[_Iterable[_Union[DumpSummary, _Mapping]]] = ..., ambiguous_timestamps: _Optional[int] = ..., timeline: _Optional[_Union[Timeline, _Mapping]] = ..., services: _Optional[_Iterable[_Union[ServiceStatus, _Mapping]]] = ..., read_with: _Optional[str] = ..., read_on: _Optional[str] = ..., verification: _Optional[_Union[Verification, _Mapping]] = ..., for_ddl_tso: _Optional[int] = ..., stream_waiting_for: _Optional[str] = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("name", "error", "failures", "again_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    AGAIN_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: str
    failures: int
    again_s: float
    def __init__(self, name: _Optional[str] = ..., error: _Optional[str] = ..., failures: _Optional[int] = ..., again_s: _Optional[float] = ...) -> None: ...

class Timeline(_message.Message):
    __slots__ = ("samples", "chunks", "ddls")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    DDLS_FIELD_NUMBER: _ClassVar[int]
    samples: _containers.RepeatedCompositeFieldContainer[Sample]
    chunks: _containers.RepeatedCompositeFieldContainer[DumpedChunk]
    ddls: _containers.RepeatedCompositeFieldContainer[PassedDdl]
    def __init__(self, samples: _Optional[_Iterable[_Union[Sample, _Mapping]]] = ..., chunks: _Optional[_Iterable[_Union[DumpedChunk, _Mapping]]] = ..., ddls: _Optional[_Iterable[_Union[PassedDdl, _Mapping]]] = ...) -> None: ...

class PassedDdl(_message.Message):
    __slots__ = ("commit_tso", "text", "unseen")
    COMMIT_TSO_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    commit_tso: int
    text: str
    unseen: int
    def __init__(self, commit_tso: _Optional[int] = ..., text: _Optional[str] = ..., unseen: _Optional[int] = ...) -> None: ...

class Sample(_message.Message):
    __slots__ = ("at_ms", "epoch", "rows_per_second", "changes_per_second", "resolved_lag_s", "delivery_lag_s", "open_windows", "waiting_for", "sinks")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CHANGES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_LAG_S_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_LAG_S_FIELD_NUMBER: _ClassVar[int]
    OPEN_WINDOWS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    epoch: int
    rows_per_second: float
    changes_per_second: float
    resolved_lag_s: float
    delivery_lag_s: float
    open_windows: int
    waiting_for: str
    sinks: _containers.RepeatedCompositeFieldContainer[SinkSample]
    def __init__(self, at_ms: _Optional[int] = ..., epoch: _Optional[int] = ..., rows_per_second: _Optional[float] = ..., changes_per_second: _Optional[float] = ..., resolved_lag_s: _Optional[float] = ..., delivery_lag_s: _Optional[float] = ..., open_windows: _Optional[int] = ..., waiting_for: _Optional[str] = ..., sinks: _Optional[_Iterable[_Union[SinkSample, _Mapping]]] = ...) -> None: ...

class SinkSample(_message.Message):
    __slots__ = ("sink", "median_s", "live_s", "bound_s", "limit_s")
    SINK_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_S_FIELD_NUMBER: _ClassVar[int]
    LIVE_S_FIELD_NUMBER: _ClassVar[int]
    BOUND_S_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    sink: str
    median_s: float
    live_s: float
    bound_s: float
    limit_s: float
    def __init__(self, sink: _Optional[str] = ..., median_s: _Optional[float] = ..., live_s: _Optional[float] = ..., bound_s: _Optional[float] = ..., limit_s: _Optional[float] = ...) -> None: ...

class DumpedChunk(_message.Message):
    __slots__ = ("dump_id", "schema", "table", "low_tso", "high_tso", "rows", "dropped", "seq")
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    LOW_TSO_FIELD_NUMBER: _ClassVar[int]
    HIGH_TSO_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    dump_id: str
    schema: str
    table: str
    low_tso: int
    high_tso: int
    rows: int
    dropped: int
    seq: int
    def __init__(self, dump_id: _Optional[str] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., low_tso: _Optional[int] = ..., high_tso: _Optional[int] = ..., rows: _Optional[int] = ..., dropped: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class DumpSummary(_message.Message):
    __slots__ = ("dump_id", "state", "reason", "tables", "tables_complete", "rows", "bytes", "sinks", "waits_for", "for_ddl_tso")
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TABLES_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    FOR_DDL_TSO_FIELD_NUMBER: _ClassVar[int]
    dump_id: str
    state: DumpState
    reason: str
    tables: int
    tables_complete: int
    rows: int
    bytes: int
    sinks: _containers.RepeatedScalarFieldContainer[str]
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    for_ddl_tso: int
    def __init__(self, dump_id: _Optional[str] = ..., state: _Optional[_Union[DumpState, str]] = ..., reason: _Optional[str] = ..., tables: _Optional[int] = ..., tables_complete: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., sinks: _Optional[_Iterable[str]] = ..., waits_for: _Optional[_Iterable[str]] = ..., for_ddl_tso: _Optional[int] = ...) -> None: ...

class SinkStatus(_message.Message):
    __slots__ = ("sink", "live_s", "bound_s", "without_dump_s", "rows_allowed", "holds", "lag_s", "error", "limit_s", "fixed_s", "began_seq", "began_tso", "tables_known", "tables", "overloaded", "median_s")
    SINK_FIELD_NUMBER: _ClassVar[int]
    LIVE_S_FIELD_NUMBER: _ClassVar[int]
    BOUND_S_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DUMP_S_FIELD_NUMBER: _ClassVar[int]
    ROWS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    LAG_S_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    FIXED_S_FIELD_NUMBER: _ClassVar[int]
    BEGAN_SEQ_FIELD_NUMBER: _ClassVar[int]
    BEGAN_TSO_FIELD_NUMBER: _ClassVar[int]
    TABLES_KNOWN_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    OVERLOADED_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_S_FIELD_NUMBER: _ClassVar[int]
    sink: str
    live_s: float
    bound_s: float
    without_dump_s: float
    rows_allowed: int
    holds: bool
    lag_s: float
    error: str
    limit_s: float
    fixed_s: float
    began_seq: int
    began_tso: int
    tables_known: bool
    tables: _containers.RepeatedCompositeFieldContainer[SinkTableStatus]
    overloaded: bool
    median_s: float
    def __init__(self, sink: _Optional[str] = ..., live_s: _Optional[float] = ..., bound_s: _Optional[float] = ..., without_dump_s: _Optional[float] = ..., rows_allowed: _Optional[int] = ..., holds: _Optional[bool] = ..., lag_s: _Optional[float] = ..., error: _Optional[str] = ..., limit_s: _Optional[float] = ..., fixed_s: _Optional[float] = ..., began_seq: _Optional[int] = ..., began_tso: _Optional[int] = ..., tables_known: _Optional[bool] = ..., tables: _Optional[_Iterable[_Union[SinkTableStatus, _Mapping]]] = ..., overloaded: _Optional[bool] = ..., median_s: _Optional[float] = ...) -> None: ...

class SinkTableStatus(_message.Message):
    __slots__ = ("schema", "table", "complete_since_tso", "incomplete_since_tso", "cause", "text", "vanished")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_SINCE_TSO_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_SINCE_TSO_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VANISHED_FIELD_NUMBER: _ClassVar[int]
    schema: str
    table: str
    complete_since_tso: int
    incomplete_since_tso: int
    cause: str
    text: str
    vanished: bool
    def __init__(self, schema: _Optional[str] = ..., table: _Optional[str] = ..., complete_since_tso: _Optional[int] = ..., incomplete_since_tso: _Optional[int] = ..., cause: _Optional[str] = ..., text: _Optional[str] = ..., vanished: _Optional[bool] = ...) -> None: ...

class SubscriberStatus(_message.Message):
    __slots__ = ("name", "next_seq", "segments", "heard_s", "connected")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    HEARD_S_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    next_seq: int
    segments: int
    heard_s: float
    connected: bool
    def __init__(self, name: _Optional[str] = ..., next_seq: _Optional[int] = ..., segments: _Optional[int] = ..., heard_s: _Optional[float] = ..., connected: _Optional[bool] = ...) -> None: ...

class LaneStatus(_message.Message):
    __slots__ = ("lane", "resolved_tso", "lag_s")
    LANE_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_TSO_FIELD_NUMBER: _ClassVar[int]
    LAG_S_FIELD_NUMBER: _ClassVar[int]
    lane: str
    resolved_tso: int
    lag_s: float
    def __init__(self, lane: _Optional[str] = ..., resolved_tso: _Optional[int] = ..., lag_s: _Optional[float] = ...) -> None: ...
