from ticdc_dump.tikv import metapb_pb2 as _metapb_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OK: _ClassVar[ErrorType]
    UNKNOWN: _ClassVar[ErrorType]
    NOT_BOOTSTRAPPED: _ClassVar[ErrorType]
    STORE_TOMBSTONE: _ClassVar[ErrorType]
    ALREADY_BOOTSTRAPPED: _ClassVar[ErrorType]
    INCOMPATIBLE_VERSION: _ClassVar[ErrorType]
    REGION_NOT_FOUND: _ClassVar[ErrorType]
    ENTRY_NOT_FOUND: _ClassVar[ErrorType]
OK: ErrorType
UNKNOWN: ErrorType
NOT_BOOTSTRAPPED: ErrorType
STORE_TOMBSTONE: ErrorType
ALREADY_BOOTSTRAPPED: ErrorType
INCOMPATIBLE_VERSION: ErrorType
REGION_NOT_FOUND: ErrorType
ENTRY_NOT_FOUND: ErrorType

class RequestHeader(_message.Message):
    __slots__ = ("cluster_id", "caller_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CALLER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: int
    caller_id: str
    def __init__(self, cluster_id: _Optional[int] = ..., caller_id: _Optional[str] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("cluster_id", "error")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    cluster_id: int
    error: Error
    def __init__(self, cluster_id: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("type", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: ErrorType
    message: str
    def __init__(self, type: _Optional[_Union[ErrorType, str]] = ..., message: _Optional[str] = ...) -> None: ...

class TsoRequest(_message.Message):
    __slots__ = ("header", "count")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    count: int
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class Timestamp(_message.Message):
    __slots__ = ("physical", "logical")
    PHYSICAL_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_FIELD_NUMBER: _ClassVar[int]
    physical: int
    logical: int
    def __init__(self, physical: _Optional[int] = ..., logical: _Optional[int] = ...) -> None: ...

class TsoResponse(_message.Message):
    __slots__ = ("header", "count", "timestamp")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    count: int
    timestamp: Timestamp
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., count: _Optional[int] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class GetStoreRequest(_message.Message):
    __slots__ = ("header", "store_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    store_id: int
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., store_id: _Optional[int] = ...) -> None: ...

class GetStoreResponse(_message.Message):
    __slots__ = ("header", "store")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    store: _metapb_pb2.Store
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., store: _Optional[_Union[_metapb_pb2.Store, _Mapping]] = ...) -> None: ...

class GetRegionRequest(_message.Message):
    __slots__ = ("header", "region_key")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REGION_KEY_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    region_key: bytes
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., region_key: _Optional[bytes] = ...) -> None: ...

class GetRegionResponse(_message.Message):
    __slots__ = ("header", "region", "leader")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    region: _metapb_pb2.Region
    leader: _metapb_pb2.Peer
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., region: _Optional[_Union[_metapb_pb2.Region, _Mapping]] = ..., leader: _Optional[_Union[_metapb_pb2.Peer, _Mapping]] = ...) -> None: ...

class ScanRegionsRequest(_message.Message):
    __slots__ = ("header", "start_key", "limit", "end_key")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    START_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    END_KEY_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    start_key: bytes
    limit: int
    end_key: bytes
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., start_key: _Optional[bytes] = ..., limit: _Optional[int] = ..., end_key: _Optional[bytes] = ...) -> None: ...

class Region(_message.Message):
    __slots__ = ("region", "leader")
    REGION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    region: _metapb_pb2.Region
    leader: _metapb_pb2.Peer
    def __init__(self, region: _Optional[_Union[_metapb_pb2.Region, _Mapping]] = ..., leader: _Optional[_Union[_metapb_pb2.Peer, _Mapping]] = ...) -> None: ...

class ScanRegionsResponse(_message.Message):
    __slots__ = ("header", "regions")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "member_id", "client_urls")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_URLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    member_id: int
    client_urls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., member_id: _Optional[int] = ..., client_urls: _Optional[_Iterable[str]] = ...) -> None: ...

class GetMembersRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ...) -> None: ...

class GetMembersResponse(_message.Message):
    __slots__ = ("header", "members", "leader")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    members: _containers.RepeatedCompositeFieldContainer[Member]
    leader: Member
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., leader: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class UpdateServiceGCSafePointRequest(_message.Message):
    __slots__ = ("header", "service_id", "TTL", "safe_point")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    SAFE_POINT_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    service_id: bytes
    TTL: int
    safe_point: int
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., service_id: _Optional[bytes] = ..., TTL: _Optional[int] = ..., safe_point: _Optional[int] = ...) -> None: ...

class UpdateServiceGCSafePointResponse(_message.Message):
    __slots__ = ("header", "service_id", "TTL", "min_safe_point")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    MIN_SAFE_POINT_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    service_id: bytes
    TTL: int
    min_safe_point: int
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., service_id: _Optional[bytes] = ..., TTL: _Optional[int] = ..., min_safe_point: _Optional[int] = ...) -> None: ...

class KeyspaceScope(_message.Message):
    __slots__ = ("keyspace_id",)
    KEYSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    keyspace_id: int
    def __init__(self, keyspace_id: _Optional[int] = ...) -> None: ...

class SetGCBarrierRequest(_message.Message):
    __slots__ = ("header", "keyspace_scope", "barrier_id", "barrier_ts", "ttl_seconds")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    KEYSPACE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    BARRIER_ID_FIELD_NUMBER: _ClassVar[int]
    BARRIER_TS_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    keyspace_scope: KeyspaceScope
    barrier_id: str
    barrier_ts: int
    ttl_seconds: int
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., keyspace_scope: _Optional[_Union[KeyspaceScope, _Mapping]] = ..., barrier_id: _Optional[str] = ..., barrier_ts: _Optional[int] = ..., ttl_seconds: _Optional[int] = ...) -> None: ...

class GCBarrierInfo(_message.Message):
    __slots__ = ("barrier_id", "barrier_ts", "ttl_seconds")
    BARRIER_ID_FIELD_NUMBER: _ClassVar[int]
    BARRIER_TS_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    barrier_id: str
    barrier_ts: int
    ttl_seconds: int
    def __init__(self, barrier_id: _Optional[str] = ..., barrier_ts: _Optional[int] = ..., ttl_seconds: _Optional[int] = ...) -> None: ...

class SetGCBarrierResponse(_message.Message):
    __slots__ = ("header", "new_barrier_info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    NEW_BARRIER_INFO_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    new_barrier_info: GCBarrierInfo
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., new_barrier_info: _Optional[_Union[GCBarrierInfo, _Mapping]] = ...) -> None: ...

class DeleteGCBarrierRequest(_message.Message):
    __slots__ = ("header", "keyspace_scope", "barrier_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    KEYSPACE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    BARRIER_ID_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    keyspace_scope: KeyspaceScope
    barrier_id: str
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., keyspace_scope: _Optional[_Union[KeyspaceScope, _Mapping]] = ..., barrier_id: _Optional[str] = ...) -> None: ...

class DeleteGCBarrierResponse(_message.Message):
    __slots__ = ("header", "deleted_barrier_info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DELETED_BARRIER_INFO_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    deleted_barrier_info: GCBarrierInfo
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., deleted_barrier_info: _Optional[_Union[GCBarrierInfo, _Mapping]] = ...) -> None: ...

class GetGCStateRequest(_message.Message):
    __slots__ = ("header", "keyspace_scope", "exclude_gc_barriers")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    KEYSPACE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_GC_BARRIERS_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    keyspace_scope: KeyspaceScope
    exclude_gc_barriers: bool
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., keyspace_scope: _Optional[_Union[KeyspaceScope, _Mapping]] = ..., exclude_gc_barriers: _Optional[bool] = ...) -> None: ...

class GCState(_message.Message):
    __slots__ = ("keyspace_scope", "is_keyspace_level_gc", "txn_safe_point", "gc_safe_point")
    KEYSPACE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    IS_KEYSPACE_LEVEL_GC_FIELD_NUMBER: _ClassVar[int]
    TXN_SAFE_POINT_FIELD_NUMBER: _ClassVar[int]
    GC_SAFE_POINT_FIELD_NUMBER: _ClassVar[int]
    keyspace_scope: KeyspaceScope
    is_keyspace_level_gc: bool
    txn_safe_point: int
    gc_safe_point: int
    def __init__(self, keyspace_scope: _Optional[_Union[KeyspaceScope, _Mapping]] = ..., is_keyspace_level_gc: _Optional[bool] = ..., txn_safe_point: _Optional[int] = ..., gc_safe_point: _Optional[int] = ...) -> None: ...

class GetGCStateResponse(_message.Message):
    __slots__ = ("header", "gc_state")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    GC_STATE_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    gc_state: GCState
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., gc_state: _Optional[_Union[GCState, _Mapping]] = ...) -> None: ...
