from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RowOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROW_OP_UNSPECIFIED: _ClassVar[RowOp]
    ROW_OP_INSERT: _ClassVar[RowOp]
    ROW_OP_UPDATE: _ClassVar[RowOp]
    ROW_OP_DELETE: _ClassVar[RowOp]
ROW_OP_UNSPECIFIED: RowOp
ROW_OP_INSERT: RowOp
ROW_OP_UPDATE: RowOp
ROW_OP_DELETE: RowOp

class Delivery(_message.Message):
    __slots__ = ("seq", "tables", "rows", "ddls", "resolved")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DDLS_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    tables: _containers.RepeatedCompositeFieldContainer[TableColumns]
    rows: _containers.RepeatedCompositeFieldContainer[RowBatch]
    ddls: _containers.RepeatedCompositeFieldContainer[SchemaChange]
    resolved: ResolvedUpTo
    def __init__(self, seq: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableColumns, _Mapping]]] = ..., rows: _Optional[_Iterable[_Union[RowBatch, _Mapping]]] = ..., ddls: _Optional[_Iterable[_Union[SchemaChange, _Mapping]]] = ..., resolved: _Optional[_Union[ResolvedUpTo, _Mapping]] = ...) -> None: ...

class TableColumns(_message.Message):
    __slots__ = ("id", "schema", "table", "columns", "key")
    ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    id: int
    schema: str
    table: str
    columns: _containers.RepeatedCompositeFieldContainer[TableColumn]
    key: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., columns: _Optional[_Iterable[_Union[TableColumn, _Mapping]]] = ..., key: _Optional[_Iterable[str]] = ...) -> None: ...

class TableColumn(_message.Message):
    __slots__ = ("name", "kind", "nullable", "type", "length", "scale", "elements")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    nullable: bool
    type: str
    length: int
    scale: int
    elements: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., nullable: _Optional[bool] = ..., type: _Optional[str] = ..., length: _Optional[int] = ..., scale: _Optional[int] = ..., elements: _Optional[_Iterable[str]] = ...) -> None: ...

class RowBatch(_message.Message):
    __slots__ = ("table", "ops", "commit_tsos", "ordinals", "before", "after", "dump_id", "low_tso")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TSOS_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    LOW_TSO_FIELD_NUMBER: _ClassVar[int]
    table: int
    ops: _containers.RepeatedScalarFieldContainer[RowOp]
    commit_tsos: _containers.RepeatedScalarFieldContainer[int]
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    before: _containers.RepeatedCompositeFieldContainer[Texts]
    after: _containers.RepeatedCompositeFieldContainer[Texts]
    dump_id: str
    low_tso: int
    def __init__(self, table: _Optional[int] = ..., ops: _Optional[_Iterable[_Union[RowOp, str]]] = ..., commit_tsos: _Optional[_Iterable[int]] = ..., ordinals: _Optional[_Iterable[int]] = ..., before: _Optional[_Iterable[_Union[Texts, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[Texts, _Mapping]]] = ..., dump_id: _Optional[str] = ..., low_tso: _Optional[int] = ...) -> None: ...

class Texts(_message.Message):
    __slots__ = ("values", "nulls")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NULLS_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    nulls: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[str]] = ..., nulls: _Optional[_Iterable[int]] = ...) -> None: ...

class SchemaChange(_message.Message):
    __slots__ = ("commit_tso", "schema", "table", "query")
    COMMIT_TSO_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    commit_tso: int
    schema: str
    table: str
    query: str
    def __init__(self, commit_tso: _Optional[int] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class ResolvedUpTo(_message.Message):
    __slots__ = ("tso", "log", "dump")
    TSO_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    DUMP_FIELD_NUMBER: _ClassVar[int]
    tso: int
    log: str
    dump: DumpTold
    def __init__(self, tso: _Optional[int] = ..., log: _Optional[str] = ..., dump: _Optional[_Union[DumpTold, _Mapping]] = ...) -> None: ...

class DumpTold(_message.Message):
    __slots__ = ("dump_id", "state", "complete", "others")
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    dump_id: str
    state: str
    complete: _containers.RepeatedCompositeFieldContainer[TableInDump]
    others: _containers.RepeatedCompositeFieldContainer[DumpTold]
    def __init__(self, dump_id: _Optional[str] = ..., state: _Optional[str] = ..., complete: _Optional[_Iterable[_Union[TableInDump, _Mapping]]] = ..., others: _Optional[_Iterable[_Union[DumpTold, _Mapping]]] = ...) -> None: ...

class TableInDump(_message.Message):
    __slots__ = ("schema", "table")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    schema: str
    table: str
    def __init__(self, schema: _Optional[str] = ..., table: _Optional[str] = ...) -> None: ...
