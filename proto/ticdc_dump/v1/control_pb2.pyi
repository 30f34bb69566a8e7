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

class DumpState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUMP_STATE_UNSPECIFIED: _ClassVar[DumpState]
    DUMP_STATE_RUNNING: _ClassVar[DumpState]
    DUMP_STATE_PAUSED: _ClassVar[DumpState]
    DUMP_STATE_FINISHED: _ClassVar[DumpState]
    DUMP_STATE_FAILED: _ClassVar[DumpState]
    DUMP_STATE_STOPPED: _ClassVar[DumpState]
BRACKETS_UNSPECIFIED: Brackets
BRACKETS_WATERMARK: Brackets
BRACKETS_SNAPSHOT: Brackets
DUMP_STATE_UNSPECIFIED: DumpState
DUMP_STATE_RUNNING: DumpState
DUMP_STATE_PAUSED: DumpState
DUMP_STATE_FINISHED: DumpState
DUMP_STATE_FAILED: DumpState
DUMP_STATE_STOPPED: DumpState

class Changefeed(_message.Message):
    __slots__ = ("namespace", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("changefeed", "dump_id", "table_rules", "brackets", "chunk_rows")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_RULES_FIELD_NUMBER: _ClassVar[int]
    BRACKETS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_ROWS_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    dump_id: str
    table_rules: _containers.RepeatedScalarFieldContainer[str]
    brackets: Brackets
    chunk_rows: int
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., dump_id: _Optional[str] = ..., table_rules: _Optional[_Iterable[str]] = ..., brackets: _Optional[_Union[Brackets, str]] = ..., chunk_rows: _Optional[int] = ...) -> None: ...

class DumpRequest(_message.Message):
    __slots__ = ("changefeed",)
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ...) -> None: ...

class RestartRequest(_message.Message):
    __slots__ = ("changefeed", "new_dump_id")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    NEW_DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    new_dump_id: str
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., new_dump_id: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("dumps",)
    DUMPS_FIELD_NUMBER: _ClassVar[int]
    dumps: _containers.RepeatedCompositeFieldContainer[DumpStatus]
    def __init__(self, dumps: _Optional[_Iterable[_Union[DumpStatus, _Mapping]]] = ...) -> None: ...

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
    __slots__ = ("changefeed", "dump_id", "state", "reason", "brackets", "tables", "resolved_tso", "delivered_tso", "open_windows")
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BRACKETS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_TSO_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_TSO_FIELD_NUMBER: _ClassVar[int]
    OPEN_WINDOWS_FIELD_NUMBER: _ClassVar[int]
    changefeed: Changefeed
    dump_id: str
    state: DumpState
    reason: str
    brackets: Brackets
    tables: _containers.RepeatedCompositeFieldContainer[TableStatus]
    resolved_tso: int
    delivered_tso: int
    open_windows: int
    def __init__(self, changefeed: _Optional[_Union[Changefeed, _Mapping]] = ..., dump_id: _Optional[str] = ..., state: _Optional[_Union[DumpState, str]] = ..., reason: _Optional[str] = ..., brackets: _Optional[_Union[Brackets, str]] = ..., tables: _Optional[_Iterable[_Union[TableStatus, _Mapping]]] = ..., resolved_tso: _Optional[int] = ..., delivered_tso: _Optional[int] = ..., open_windows: _Optional[int] = ...) -> None: ...
