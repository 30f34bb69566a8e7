"""How the processes log: one line a decision, for people or as JSON. Set up once by the command, before anything speaks.

What is tried again is logged when it fails first, and then every RETRY_REPORTED_EVERY_S: what failed at which server, and what to look at.

Our own lines go through structlog; what libraries say through the standard library's logging (librdkafka, grpc, py4j) takes the
same way, from warnings on. Traces are plain: local variables could show passwords.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import structlog
from stamina.instrumentation import PrometheusOnRetryHook, RetryDetails, set_on_retry_hooks

from sidecar.run.log_event import LogEvent
from sidecar.shared.config import LoggingSection
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.printable import printable

EXIT_DEFECT, EXIT_ERROR = 1, 3
RETRY_REPORTED_EVERY_S = 30.0

log = structlog.get_logger("ticdc-dump")


def set_up(section: LoggingSection) -> None:
    """Lines go to standard error: standard output is for what a command answers."""
    level = logging.getLevelNamesMapping()[section.level.upper()]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shared: list[structlog.typing.Processor] = [structlog.contextvars.merge_contextvars, structlog.stdlib.add_log_level, stamp]
    last: structlog.typing.Processor = structlog.processors.JSONRenderer() if section.format == "json" else _text()
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    of_libraries: list[structlog.typing.Processor] = [structlog.stdlib.add_logger_name, *shared, structlog.processors.format_exc_info]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=of_libraries, processor=last))
    logging.captureWarnings(True)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("ticdc-dump").setLevel(level)
    set_on_retry_hooks([PrometheusOnRetryHook, RetriesReported()])


class RetriesReported:
    """A hook of stamina's, which knows a block of code by no name. What failed is named by a note of the exception."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._reported_s: dict[str, float] = {}

    def __call__(self, details: RetryDetails) -> None:
        error, now_s = details.caused_by, self._now_s()
        text, hint = error.message if isinstance(error, TicdcDumpError) else str(error), getattr(error, "hint", "")
        what = ": ".join([*getattr(error, "__notes__", ())[:1], text or type(error).__name__])
        self._reported_s = {reported: at_s for reported, at_s in self._reported_s.items() if now_s - at_s < RETRY_REPORTED_EVERY_S}
        if what not in self._reported_s:
            self._reported_s[what] = now_s
            hint = hint or "see that it runs and can be reached from this machine"
            say(LogEvent("tried again", {"error": what, "tried_s": round(details.waited_so_far, 1), "hint": hint}, "warning"))


def _text() -> structlog.typing.Processor:
    """For people, who read it in a terminal."""
    rendered = structlog.dev.ConsoleRenderer(sort_keys=False, colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)

    def text(logger: Any, name: str, event: structlog.typing.EventDict) -> str:
        values = {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}
        return rendered(logger, name, values)

    return text


def say(*lines: LogEvent) -> None:
    for line in lines:
        getattr(log, line.level)(line.event, **line.values)


def note(what: str) -> None:
    """Something that an operator should know."""
    say(LogEvent(what, {}, "warning"))


@contextmanager
def defects_reported(section: LoggingSection | None = None) -> Iterator[None]:
    """Whatever ends the block and is none of ours ends the process, by a line that says so, with the trace beside it. What is ours
    names cause and way out: it passes, and the command reports it as text; where `section` says that lines are JSON, it is one of them."""
    try:
        yield
    except TicdcDumpError as error:
        if section is None or section.format != "json":
            raise
        kind = type(error).__name__
        log.error("an error ended the process", error=kind, text=error.message, hint=error.hint, exit_code=EXIT_ERROR)
        raise SystemExit(EXIT_ERROR) from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        log.exception("a defect ended the process", error=what, exit_code=EXIT_DEFECT, hint="report this with the trace")
        raise SystemExit(EXIT_DEFECT) from error
