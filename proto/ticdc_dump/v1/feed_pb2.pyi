from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORM_KEY_VALUES: _ClassVar[Form]
    FORM_MESSAGES: _ClassVar[Form]

class Op(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OP_UNSPECIFIED: _ClassVar[Op]
    OP_PUT: _ClassVar[Op]
    OP_DELETE: _ClassVar[Op]
FORM_KEY_VALUES: Form
FORM_MESSAGES: Form
OP_UNSPECIFIED: Op
OP_PUT: Op
OP_DELETE: Op

class SenderMessage(_message.Message):
    __slots__ = ("number", "hello", "open", "entries", "resolved", "close", "heartbeat", "messages")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    number: int
    hello: Hello
    open: OpenSpan
    entries: Entries
    resolved: Resolved
    close: CloseSpan
    heartbeat: Heartbeat
    messages: Messages
    def __init__(self, number: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., open: _Optional[_Union[OpenSpan, _Mapping]] = ..., entries: _Optional[_Union[Entries, _Mapping]] = ..., resolved: _Optional[_Union[Resolved, _Mapping]] = ..., close: _Optional[_Union[CloseSpan, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., messages: _Optional[_Union[Messages, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version_min", "version_max", "sender", "changefeed", "form")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CHANGEFEED_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    sender: str
    changefeed: str
    form: Form
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., sender: _Optional[str] = ..., changefeed: _Optional[str] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class Messages(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[TopicMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[TopicMessage, _Mapping]]] = ...) -> None: ...

class TopicMessage(_message.Message):
    __slots__ = ("topic", "partition", "key", "value")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    key: bytes
    value: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class OpenSpan(_message.Message):
    __slots__ = ("span", "start", "end", "available_ts")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_TS_FIELD_NUMBER: _ClassVar[int]
    span: int
    start: bytes
    end: bytes
    available_ts: int
    def __init__(self, span: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., available_ts: _Optional[int] = ...) -> None: ...

class Entries(_message.Message):
    __slots__ = ("span", "entries")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    span: int
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, span: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("op", "key", "value", "old_value", "start_ts", "commit_ts", "region")
    OP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    OLD_VALUE_FIELD_NUMBER: _ClassVar[int]
    START_TS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    op: Op
    key: bytes
    value: bytes
    old_value: bytes
    start_ts: int
    commit_ts: int
    region: int
    def __init__(self, op: _Optional[_Union[Op, str]] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., old_value: _Optional[bytes] = ..., start_ts: _Optional[int] = ..., commit_ts: _Optional[int] = ..., region: _Optional[int] = ...) -> None: ...

class Resolved(_message.Message):
    __slots__ = ("spans",)
    SPANS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedCompositeFieldContainer[SpanResolved]
    def __init__(self, spans: _Optional[_Iterable[_Union[SpanResolved, _Mapping]]] = ...) -> None: ...

class SpanResolved(_message.Message):
    __slots__ = ("span", "ts", "entries")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    span: int
    ts: int
    entries: int
    def __init__(self, span: _Optional[int] = ..., ts: _Optional[int] = ..., entries: _Optional[int] = ...) -> None: ...

class CloseSpan(_message.Message):
    __slots__ = ("span",)
    SPAN_FIELD_NUMBER: _ClassVar[int]
    span: int
    def __init__(self, span: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SidecarMessage(_message.Message):
    __slots__ = ("number", "welcome", "wanted", "opened", "refused", "lost", "durable", "credit", "kept")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    number: int
    welcome: Welcome
    wanted: Wanted
    opened: SpanOpened
    refused: SpanRefused
    lost: SpanLost
    durable: Durable
    credit: Credit
    kept: Kept
    def __init__(self, number: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., wanted: _Optional[_Union[Wanted, _Mapping]] = ..., opened: _Optional[_Union[SpanOpened, _Mapping]] = ..., refused: _Optional[_Union[SpanRefused, _Mapping]] = ..., lost: _Optional[_Union[SpanLost, _Mapping]] = ..., durable: _Optional[_Union[Durable, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., kept: _Optional[_Union[Kept, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "credit_bytes", "batch_bytes", "silent_max_ms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    SILENT_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    version: int
    credit_bytes: int
    batch_bytes: int
    silent_max_ms: int
    def __init__(self, version: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., batch_bytes: _Optional[int] = ..., silent_max_ms: _Optional[int] = ...) -> None: ...

class Wanted(_message.Message):
    __slots__ = ("ranges", "ended")
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[WantedRange]
    ended: _containers.RepeatedCompositeFieldContainer[UnwantedRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[WantedRange, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[UnwantedRange, _Mapping]]] = ...) -> None: ...

class WantedRange(_message.Message):
    __slots__ = ("start", "end", "from_ts")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FROM_TS_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    from_ts: int
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., from_ts: _Optional[int] = ...) -> None: ...

class UnwantedRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ...) -> None: ...

class SpanOpened(_message.Message):
    __slots__ = ("span", "from_ts", "durable_ts")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    FROM_TS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_TS_FIELD_NUMBER: _ClassVar[int]
    span: int
    from_ts: int
    durable_ts: int
    def __init__(self, span: _Optional[int] = ..., from_ts: _Optional[int] = ..., durable_ts: _Optional[int] = ...) -> None: ...

class SpanRefused(_message.Message):
    __slots__ = ("span", "reason", "from_ts", "text")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[SpanRefused.Reason]
        REASON_NOT_WANTED: _ClassVar[SpanRefused.Reason]
        REASON_STARTS_TOO_LATE: _ClassVar[SpanRefused.Reason]
    REASON_UNSPECIFIED: SpanRefused.Reason
    REASON_NOT_WANTED: SpanRefused.Reason
    REASON_STARTS_TOO_LATE: SpanRefused.Reason
    SPAN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FROM_TS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    span: int
    reason: SpanRefused.Reason
    from_ts: int
    text: str
    def __init__(self, span: _Optional[int] = ..., reason: _Optional[_Union[SpanRefused.Reason, str]] = ..., from_ts: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class SpanLost(_message.Message):
    __slots__ = ("span", "start", "end", "reason", "text")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[SpanLost.Reason]
        REASON_MOVED: _ClassVar[SpanLost.Reason]
        REASON_NOT_WANTED: _ClassVar[SpanLost.Reason]
    REASON_UNSPECIFIED: SpanLost.Reason
    REASON_MOVED: SpanLost.Reason
    REASON_NOT_WANTED: SpanLost.Reason
    SPAN_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    span: int
    start: bytes
    end: bytes
    reason: SpanLost.Reason
    text: str
    def __init__(self, span: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., reason: _Optional[_Union[SpanLost.Reason, str]] = ..., text: _Optional[str] = ...) -> None: ...

class Durable(_message.Message):
    __slots__ = ("spans",)
    SPANS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedCompositeFieldContainer[SpanDurable]
    def __init__(self, spans: _Optional[_Iterable[_Union[SpanDurable, _Mapping]]] = ...) -> None: ...

class SpanDurable(_message.Message):
    __slots__ = ("span", "ts")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    span: int
    ts: int
    def __init__(self, span: _Optional[int] = ..., ts: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...
