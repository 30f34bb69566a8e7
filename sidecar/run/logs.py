"""How the processes log: one line a decision, for people or as JSON. Set up once by the command, before anything speaks.

Our own lines go through structlog; what libraries say through the standard library's logging (librdkafka, grpc, py4j) takes the
same way, from warnings on. Traces are plain: local variables could show passwords.
"""

from __future__ import annotations

import logging
import sys

import structlog

from sidecar.config import LoggingSection


def set_up(section: LoggingSection) -> None:
    """Lines go to standard error: standard output is for what a command answers."""
    level = logging.getLevelNamesMapping()[section.level.upper()]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shared: list[structlog.typing.Processor] = [structlog.contextvars.merge_contextvars, structlog.stdlib.add_log_level, stamp]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if section.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    )
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
