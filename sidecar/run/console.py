"""The web console of this process: its parts together, and what goes wrong in it as lines of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import sidecar
from sidecar.console.listening import ConsoleServer, check_console, console_address
from sidecar.control.service import ControlService
from sidecar.run.log_event import LogEvent
from sidecar.run.logs import say
from sidecar.run.past import PastSamples
from sidecar.run.samples import MeasuredTerms
from sidecar.shared.config import Config
from sidecar.shared.log import storage

if TYPE_CHECKING:
    from sidecar.console.web import ConsoleWeb


def begin_console(
    config: Config,
    config_path: Path,
    service: ControlService,
    measured: MeasuredTerms,
    owner_console: Callable[[], str],
    against_takeover: Callable[[], Sequence[str]] = lambda: (),
) -> ConsoleServer | None:
    """None without one: none is set, or the address is taken. The last two are as of ConsoleParts. Raises ConfigError."""
    token = check_console(config.console)
    if not config.console.listen:
        return None

    def web() -> ConsoleWeb:
        from sidecar.console.access import ConsoleAccess
        from sidecar.console.views import ConsoleParts, ConsoleViews
        from sidecar.console.web import ConsoleWeb

        log = storage.log_folder(config.log.uri)
        parts = ConsoleParts(
            service=service,
            config=config,
            config_path=config_path,
            log=log,
            product=sidecar.__version__,
            samples=PastSamples(log, measured.samples).of_a_day,
            chunks=measured.chunks.kept,
            ddls=measured.ddls.seen,
            owner_console=owner_console,
            against_takeover=against_takeover,
        )
        return ConsoleWeb(ConsoleViews(parts, ConsoleAccess(config.console, token)), _warn)

    def ended(error: Exception) -> None:
        _warn("console ended", {"reason": repr(error), "hint": "the stream continues; restart the sidecar for pages"})

    try:
        server = ConsoleServer(config.console, web, ended)
    except (OSError, UnicodeError) as error:  # the latter for what is no host's name
        hint = "set console.listen to an address of this machine that is free, or to ''"
        _warn("no console", {"listen": config.console.listen, "reason": str(error), "hint": hint})
        return None
    say(LogEvent("console", {"address": console_address(config.console, server.port)}))
    return server


def _warn(event: str, values: Mapping[str, object]) -> None:
    say(LogEvent(event, values, "warning"))
