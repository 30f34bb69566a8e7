"""The control service of one sidecar: requests in, the published status out (proto/ticdc_dump/v1/control.proto).

    gRPC thread ── QueuedRequests.submit ──► pipeline's thread ── publishes SidecarStatus ──► gRPC threads

- Every call is idempotent. What the status already shows is answered without asking the pipeline; a refusal counts only if a
  status published after it does not show what was requested either (the request of a lost answer did it).
- The answer of a request is a status published after it was carried out.
- A process that does not own the changefeed answers every call with FAILED_PRECONDITION and the owner's address in the
  trailing metadata `ticdc-dump-owner`: empty while the owner is not known. One that could own it, and whose terms fail or have not
  begun, answers UNAVAILABLE and says why.
- Nothing here runs in the pipeline's thread, and it never waits for the database on behalf of these calls (P3).
- Few calls at once may wait for the database (Start, Restart, Preview), each for no longer than its caller waits. So Query, Stop and
  health have threads left while the database does not answer.

    InvalidField: a text of the request (fields) INVALID_ARGUMENT
    RefusedRequest and other errors of ours  FAILED_PRECONDITION       another changefeed            NOT_FOUND
    errors that a retry can help             UNAVAILABLE               too many watchers, starts     RESOURCE_EXHAUSTED
    OutOfReach, of subscribers (subscribe)   OUT_OF_RANGE
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import BoundedSemaphore, Event, Lock
from time import monotonic, time
from typing import Any, NoReturn

import grpc

from sidecar.control.answers import FULL_METADATA, OWNER_METADATA
from sidecar.control.dump_scope import Scope, is_dump_id, resolve, restarted_brackets, settings_of, start_dump, unknown_sinks
from sidecar.control.exact import after_dump, after_restart, followed_by, verification_of
from sidecar.control.fields import check_fields
from sidecar.control.holes import narrow_to_holes
from sidecar.control.preview import preview
from sidecar.control.repeated import already_done, is_set
from sidecar.control.served import Served
from sidecar.control.status import SidecarStatus
from sidecar.control.subscribe import SUBSCRIBERS_AT_ONCE_MAX, Subscriptions
from sidecar.control.verification_messages import VerificationPort, answer_of, asked, expected, note_running, row_difference
from sidecar.control.wire import dump_status, listed
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.ports import Caller
from sidecar.shared.errors import InvalidField, OutOfReach, RefusedRequest, TicdcDumpError, with_hint
from sidecar.shared.log.verification import RepairState
from sidecar.shared.model.messages import PauseDump, Request, RestartDump, ResumeDump, SetDump, StopDump
from sidecar.shared.model.nouns import operation_id
from sidecar.shared.model.progress import OVER, DumpState, Progress
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc, delivery_pb2

REQUEST_TIMEOUT_S = 20.0
"""For the pipeline to carry a request out: it may be in the middle of writing a large segment."""
PUBLISH_TIMEOUT_S = 5.0
"""For the next status, which comes with every step; after that the last one has to do."""
PUBLISH_LOOK_S = 0.02
WATCH_EVERY_S = 1.0
WATCHERS_MAX = 16
"""Each holds one thread of the server."""
ASKING_MAX = 8
"""Starts and previews under way: each may wait for the database, and holds one thread of the server meanwhile."""
ASKING_MAX_S = 30.0
"""For the database, where a caller set no deadline."""
DETAILS_MAX = 2000
"""Characters of an error's text: it travels in a header, of which gRPC takes 8 KiB, three bytes for each that is not ASCII."""


class ControlService(control_pb2_grpc.ControlServicer):
    def __init__(self, served: Served) -> None:
        self._served = served
        self._watchers = BoundedSemaphore(WATCHERS_MAX)
        self._asking = BoundedSemaphore(ASKING_MAX)
        self._subscriptions = Subscriptions(served.spool)
        self._wakes: set[Event] = set()
        self._lock = Lock()
        self._closing = False

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        with self._lock:
            self._closing = True
            for wake in self._wakes:
                wake.set()

    # ---- the calls, as gRPC names them -----------------------------------------------------------------------------

    def Start(self, request: pb.StartRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        with _errors_reported(request, context):
            status = self._owned(request.changefeed, context)
            if status.dump(request.dump_id) is not None and request.dump_id:
                return dump_status(status, request.dump_id)
            with self._one_of_few(context) as caller:
                scope = self._scope(request, caller)
                scope.bracketing = self._served.bracketing(caller)
            start, shows = start_dump(request, scope, self._served.defaults), partial(_is_dump, request.dump_id)
            if not request.exact:
                return self._carried_out(start, context, shows)
            following = after_dump(request, scope, sinks=self._served.sinks, targets=self._served.targets, asked_ms=int(time() * 1000))
            with followed_by(following, self._verifications(context), self._served.asker(context)):
                return self._carried_out(start, context, shows)

    def Pause(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        return self._move(request, context, PauseDump(request.dump_id), DumpState.PAUSED)

    def Resume(self, request: pb.ResumeRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            settings = settings_of(request.settings, chunk_rows=self._served.defaults.chunk_rows)
            shows = partial(is_set, settings, frozenset({DumpState.RUNNING, DumpState.QUEUED}))
            return self._carried_out(ResumeDump(settings, request.dump_id), context, shows)

    def Set(self, request: pb.SetRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            settings = settings_of(request.settings, chunk_rows=self._served.defaults.chunk_rows)
            return self._carried_out(SetDump(settings, request.dump_id), context, partial(is_set, settings, frozenset(DumpState) - OVER))

    def Stop(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        return self._move(request, context, StopDump(request.dump_id), DumpState.STOPPED)

    def Restart(self, request: pb.RestartRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        with _errors_reported(request, context):
            status = self._owned(request.changefeed, context)
            if not is_dump_id(request.new_dump_id):
                raise RefusedRequest(f"dump id {request.new_dump_id!r} is not one", hint=f"give {DUMP_ID_LENGTH} letters and digits")
            last = status.dump(request.dump_id)
            for why in unknown_sinks(last.sinks if last is not None else (), self._served.sinks):
                raise RefusedRequest(why, hint="use dumpstart, with --sink for one of them or without it for all")
            with self._one_of_few(context) as caller:
                brackets = None if last is None else restarted_brackets(last, partial(self._served.bracketing, caller))
            restart = RestartDump(request.new_dump_id, request.dump_id, brackets=brackets)
            shows = partial(_is_dump, request.new_dump_id)
            is_there = status.dump(request.new_dump_id) is not None
            if last is None or is_there or (verification := verification_of(last, self._served.history())) is None:
                return self._carried_out(restart, context, shows)
            port = self._verifications(context)
            following = after_restart(verification, request.new_dump_id, port, asked_ms=int(time() * 1000))
            with followed_by(following, port, self._served.asker(context)):
                return self._carried_out(replace(restart, exact=True), context, shows)

    def Query(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        with _errors_reported(request, context):
            status = self._dump_status(request, context)
            status.subscribers.extend(self._subscriptions.states())
            if request.HasField("timeline_after_ms"):
                status.timeline.CopyFrom(self._served.timeline(request.timeline_after_ms))
            return status

    def _dump_status(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> pb.DumpStatus:
        status = dump_status(self._owned_with(request, context), request.dump_id)
        note_running(status, self._served.verifications(), self._served.verification_waits_for())
        return status

    def List(self, request: pb.ListRequest, context: grpc.ServicerContext) -> pb.ListResponse:  # noqa: N802
        with _errors_reported(request, context):
            if request.changefeed_id:
                self._owned(pb.Changefeed(namespace=request.namespace, id=request.changefeed_id), context)
            status = self._status(context)
            if request.namespace not in ("", status.changefeed.namespace):
                return pb.ListResponse(changefeed=pb.Changefeed(namespace=status.changefeed.namespace, id=status.changefeed.id))
            return listed(request, status, self._served.history(), now_ms=int(time() * 1000))

    def Watch(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> Iterator[pb.DumpStatus]:  # noqa: N802
        if not self._watchers.acquire(blocking=False):
            context.set_trailing_metadata(((FULL_METADATA, "watchers"),))
            _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, f"{WATCHERS_MAX} watch this sidecar already: use dumpquery without --watch")
        try:
            with self._woken(context) as wake, _errors_reported(request, context):
                yield from self._statuses(request, context, wake)
        finally:
            self._watchers.release()

    def _statuses(self, request: pb.DumpRequest, context: grpc.ServicerContext, wake: Event) -> Iterator[pb.DumpStatus]:
        """Each that differs from the one before, until the client or this service ends."""
        last, after_ms = None, request.timeline_after_ms
        while not self._closing and context.is_active():
            status = self._dump_status(request, context)
            if status != last:
                last = status
                if request.HasField("timeline_after_ms"):
                    status = pb.DumpStatus(timeline=self._served.timeline(after_ms))
                    status.MergeFrom(last)
                    after_ms = status.timeline.samples[-1].at_ms if status.timeline.samples else after_ms
                yield status
            wake.wait(WATCH_EVERY_S)

    def Preview(self, request: pb.StartRequest, context: grpc.ServicerContext) -> pb.DumpPreview:  # noqa: N802
        with _errors_reported(request, context):
            dumps = self._owned(request.changefeed, context).dumps
            with self._one_of_few(context) as caller:
                scope = self._scope(request, caller)
                read = [estimate.table for estimate in scope.estimates if not estimate.refused and estimate.table not in scope.keys]
                if request.exact and not scope.refusals:
                    after_dump(request, scope, sinks=self._served.sinks, targets=self._served.targets, asked_ms=0)
                slow = self._served.slow_reads({table: scope.where.get(table, "") for table in read})
                scope.bracketing, served = self._served.bracketing(caller), self._served
                return preview(scope, request, history=served.history(), slow=slow, dumps=dumps, read_with=served.defaults.read_with)

    def Verify(self, request: pb.VerifyRequest, context: grpc.ServicerContext) -> pb.Verification:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            port = self._verifications(context)
            known = operation_id(request.id) if request.id and not request.dry_run else None
            if known is not None and (there := port.find(known)) is not None:
                if request.repair and there[2] is not None and there[2].state is RepairState.ASKS:
                    at_most = request.delete_at_most if request.HasField("delete_at_most") else None
                    port.allow(known, at_most, self._served.asker(context))
                return self._answer(port, request)
            served = self._served
            start = pb.StartRequest(changefeed=request.changefeed, table_rules=request.table_rules, where=request.where)
            with self._one_of_few(context) as caller:
                scope = self._scope(start, caller)
            wanted = asked(request, scope, sinks=served.sinks, targets=served.targets, asked_ms=int(time() * 1000))
            if request.dry_run:
                return expected(wanted, scope.estimates)
            port.start(wanted, served.asker(context))
            return self._answer(port, request)

    def VerifyQuery(self, request: pb.VerificationRequest, context: grpc.ServicerContext) -> pb.Verification:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            return self._answer(self._verifications(context), request, is_brief=request.brief)

    def VerifyStop(self, request: pb.VerificationRequest, context: grpc.ServicerContext) -> pb.Verification:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            port = self._verifications(context)
            shown = self._answer(port, request)
            if shown.id:
                port.stop(operation_id(shown.id), self._served.asker(context))
            return self._answer(port, pb.VerificationRequest(changefeed=request.changefeed, id=shown.id))

    def Differences(self, request: pb.VerificationRequest, context: grpc.ServicerContext) -> Iterator[pb.Difference]:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            port = self._verifications(context)
            shown = self._answer(port, request)
            for table, row in port.differences(operation_id(shown.id)) if shown.id else ():
                yield pb.Difference(sink=table.sink, schema=table.schema, table=table.table, row=row_difference(row))

    def _answer(
        self, port: VerificationPort, request: pb.VerificationRequest | pb.VerifyRequest, *, is_brief: bool = False
    ) -> pb.Verification:
        return answer_of(port, request, is_brief=is_brief, starves=self._served.verification_waits_for())

    def _verifications(self, context: grpc.ServicerContext) -> VerificationPort:
        port = self._served.verifications()
        if port is None:
            _abort(context, grpc.StatusCode.UNAVAILABLE, "this sidecar is attaching to the changefeed")
        return port

    def Subscribe(self, request: pb.SubscribeRequest, context: grpc.ServicerContext) -> Iterator[delivery_pb2.Delivery]:  # noqa: N802
        if self._subscriptions.full():
            context.set_trailing_metadata(((FULL_METADATA, "subscribers"),))
            what = f"{SUBSCRIBERS_AT_ONCE_MAX} subscribers read this sidecar's stream already"
            _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, with_hint(what, "end one of them"))
        try:
            with self._woken(context) as wake, _errors_reported(request, context):

                def goes_on(wait_s: float) -> bool:
                    wake.wait(wait_s)
                    self._owned(request.changefeed, context)
                    return not self._closing and context.is_active()

                goes_on(0)
                yield from self._subscriptions.stream(request, context, goes_on)
        finally:
            self._subscriptions.leave()

    def Acknowledge(self, request: pb.AcknowledgeRequest, context: grpc.ServicerContext) -> pb.AcknowledgeResponse:  # noqa: N802
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            self._subscriptions.acknowledge(request)
            return pb.AcknowledgeResponse()

    # ---- what they have in common ----------------------------------------------------------------------------------

    @contextmanager
    def _woken(self, context: grpc.ServicerContext) -> Iterator[Event]:
        """An event that is set when the call or this service ends."""
        wake = Event()
        try:
            with self._lock:
                self._wakes.add(wake)
            context.add_callback(wake.set)
            yield wake
        finally:
            with self._lock:
                self._wakes.discard(wake)

    @contextmanager
    def _one_of_few(self, context: grpc.ServicerContext) -> Iterator[Caller]:
        if not self._asking.acquire(blocking=False):
            _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, f"{ASKING_MAX} calls are reading the tables' schemas already: ask again")
        try:
            yield Caller(lambda: _left_s(context), lambda: not context.is_active(), context.add_callback)
        finally:
            self._asking.release()

    def _scope(self, request: pb.StartRequest, caller: Caller) -> Scope:
        served, status = self._served, self._served.status()
        if request.holes and status is not None:
            narrow_to_holes(request, status, served.sinks)
        schemas = served.schemas.asked_by(caller)
        scope = resolve(request, schemas, served.feed_scope, case_sensitive=served.case_sensitive, gone=caller.gone)
        scope.refusals += unknown_sinks(request.sinks, served.sinks)
        return scope

    def _move(self, request: pb.DumpRequest, context: grpc.ServicerContext, move: Request, target: DumpState) -> pb.DumpStatus:
        with _errors_reported(request, context):
            self._owned(request.changefeed, context)
            return self._carried_out(move, context, lambda progress: progress.state is target)

    def _carried_out(self, request: Request, context: grpc.ServicerContext, shows: Callable[[Progress], bool]) -> pb.DumpStatus:
        """`shows`: whether a dump is as the request would have it."""
        status = self._status(context)
        if (progress := already_done(status.dumps, request, shows)) is not None:
            return dump_status(status, progress.dump_id)
        try:
            requested = replace(request, asker=self._served.asker(context))
            self._served.requests.submit(requested, timeout_s=min(REQUEST_TIMEOUT_S, context.time_remaining() or REQUEST_TIMEOUT_S))
        except RefusedRequest:
            status = self._published_next(context)
            if (progress := already_done(status.dumps, request, shows)) is None:
                raise
            return dump_status(status, progress.dump_id)
        status = self._published_next(context)
        progress = already_done(status.dumps, request, shows)
        return dump_status(status, progress.dump_id if progress is not None else "")

    def _owned_with(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> SidecarStatus:
        """As `_owned`. Raises RefusedRequest where the requested dump is not there."""
        status = self._owned(request.changefeed, context)
        if request.dump_id and status.dump(request.dump_id) is None:
            raise RefusedRequest(f"there is no dump {request.dump_id}, or it is forgotten", hint="see dumplist for the last dumps")
        return status

    def _published_next(self, context: grpc.ServicerContext) -> SidecarStatus:
        """A status made after this moment: it shows what has been answered before."""
        known = self._status(context)
        until_s = monotonic() + PUBLISH_TIMEOUT_S
        pause = Event()
        while (status := self._status(context)) is known and monotonic() < until_s:
            pause.wait(PUBLISH_LOOK_S)
        return status

    def _owned(self, changefeed: pb.Changefeed, context: grpc.ServicerContext) -> SidecarStatus:
        """The status, if this process owns the changefeed, and the request is about it."""
        status = self._status(context)
        served = status.changefeed
        if (changefeed.namespace or "default", changefeed.id) != (served.namespace, served.id):
            wanted = f"{changefeed.namespace or 'default'}/{changefeed.id}"
            hint = "see --changefeed-id and --namespace, or give that changefeed's own sidecar with --sidecar"
            what = with_hint(f"changefeed {wanted} is not served here, {served.namespace}/{served.id} is", hint)
            _abort(context, grpc.StatusCode.NOT_FOUND, what)
        return status

    def _status(self, context: grpc.ServicerContext) -> SidecarStatus:
        status = self._served.status()
        if status is None:
            if hindered := self._served.hindered():
                _abort(context, grpc.StatusCode.UNAVAILABLE, f"this sidecar does not serve its changefeed now: {hindered}")
            owner = self._served.owner_address() or ""
            context.set_trailing_metadata(((OWNER_METADATA, owner),))
            against = "".join(f"; it could not take over: {what}" for what in self._served.against_takeover())
            text = f"this sidecar is a standby; the owner is {owner or 'not known yet'}{against}"
            _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        return status


def _is_dump(dump_id: str, progress: Progress) -> bool:
    return progress.dump_id == dump_id


def _left_s(context: grpc.ServicerContext) -> float:
    left_s = context.time_remaining()
    return ASKING_MAX_S if left_s is None else min(left_s, ASKING_MAX_S)


@contextmanager
def _errors_reported(request: Any, context: grpc.ServicerContext) -> Iterator[None]:
    """The request's fields are checked first. Our errors as gRPC's; what is not ours is a bug and becomes gRPC's UNKNOWN."""
    try:
        check_fields(request)
        yield
    except InvalidField as error:
        _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
    except OutOfReach as error:
        _abort(context, grpc.StatusCode.OUT_OF_RANGE, str(error))
    except TicdcDumpError as error:
        _abort(context, grpc.StatusCode.UNAVAILABLE if error.retryable else grpc.StatusCode.FAILED_PRECONDITION, str(error))


def _abort(context: grpc.ServicerContext, code: grpc.StatusCode, text: str) -> NoReturn:
    context.abort(code, text if len(text) <= DETAILS_MAX else f"{text[:DETAILS_MAX]} … ({len(text) - DETAILS_MAX} characters more)")
    raise AssertionError("abort raises")
