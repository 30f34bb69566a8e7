"""`make screenshots`: the console's pictures in deploy/images, of a made-up shop, so that no server is needed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.chromium import MISSING, PROGRAM, Window, chromium
from tests.support.console_shop import Shop

IMAGES = Path(__file__).parents[2] / "deploy" / "images"
PAGES = {"stream": "/", "dump": "/dump", "start": "/start?preview=1"}
WIDTH, HEIGHT_MAX = 1280, 1250
NOW_MS = 1_795_702_800_000
"""Always the same, so that a picture changes with the pages only: 2026-11-26 15:00 UTC."""


def main() -> int:
    if PROGRAM is None:
        sys.stderr.write(f"{MISSING}\n")
        return 1
    shop = Shop(now_ms=NOW_MS)
    with (
        tempfile.TemporaryDirectory() as folder,
        shop.owner() as owner,
        shop.console(owner, Path(folder)) as console,
        chromium() as browser,
    ):
        for name, path in PAGES.items():
            with Window(browser, console.address, width=WIDTH) as window:
                page = window.login().open(path)
                height = min(int(page.evaluate("document.documentElement.scrollHeight")), HEIGHT_MAX)
                page.set_viewport_size({"width": WIDTH, "height": height})
                file = IMAGES / f"console-{name}.png"
                page.screenshot(path=file)
                sys.stdout.write(f"{file.relative_to(IMAGES.parents[1])}  {file.stat().st_size // 1024} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
