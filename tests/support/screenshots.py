"""Write deploy/images/console-*.png: pages of the console with a made-up shop's changefeed, as Chromium shows them. Needs no server.

python -m tests.support.screenshots
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

from tests.support.chromium import Window, chromium
from tests.support.console_shop import Shop

IMAGES = Path(__file__).parents[2] / "deploy" / "images"
WIDTH = 1280
AT_MS = int(datetime(2026, 3, 14, 9, 26, tzinfo=UTC).timestamp() * 1000)
"""So that pictures differ only where pages do."""
PICTURES = {
    "stream": ("/", 1225),
    "dump": ("/dump", 1210),
    "start": ("/start?preview=1&rules=shop.*&rows_per_second=20000&exact=yes", 620),
    "history": ("/history", 520),
}
"""Of each page its path, and the pixels from its top."""
BYTES_MAX = 600 << 10
"""Of all of them together."""


def main() -> None:
    shop = Shop(now_ms=AT_MS, lanes=3)
    with ExitStack() as stack:
        stack.enter_context(patch("sidecar.control.service.time", lambda: AT_MS / 1000))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        owner = stack.enter_context(shop.owner())
        console = stack.enter_context(shop.console(owner, folder))
        browser = stack.enter_context(chromium())
        window = stack.enter_context(Window(browser, console.address, width=WIDTH)).login()
        for name, (path, height) in PICTURES.items():
            page = window.open(path)
            page.screenshot(path=IMAGES / f"console-{name}.png", full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
    written = sum((IMAGES / f"console-{name}.png").stat().st_size for name in PICTURES)
    assert written <= BYTES_MAX, f"the pictures have {written:,} bytes, expected {BYTES_MAX:,} at most"


if __name__ == "__main__":
    main()
