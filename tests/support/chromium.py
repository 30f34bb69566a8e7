"""Debian's Chromium, driven by playwright: one for a module of tests, a window of its own for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it ships no types
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.console import TOKEN
from tests.support.eventually import PATIENCE_S, eventually

PROGRAM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "there is no chromium in PATH (apt-get install chromium, or set CHROMIUM)"
FLAGS = [
    "--no-sandbox",  # it may run as root, and visits pages of ours only
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--expose-gc",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips where there is none; fails in CI, which installs it."""
    if PROGRAM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A browser's window with cookies of its own. `messages`: errors and warnings of its console. A context manager."""

    def __init__(self, browser: Browser, address: str, *, width: int = 1280, scheme: str = "light", **options: Any) -> None:
        self.address = address
        usual: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "ignore_https_errors": True}
        self._context = browser.new_context(**(usual | options))
        self._context.set_default_timeout(PATIENCE_S * 1000)
        self.page: Page = self._context.new_page()
        self.messages: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text) if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def login(self, token: str = TOKEN) -> Window:
        self.open("/login")
        self.page.fill("input[name=token]", token)
        self.page.press("input[name=token]", "Enter")
        self.page.wait_for_url(f"{self.address}/")
        return self

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.address}{path}", wait_until="load")
        return self.page

    def until(self, expression: str) -> None:
        """The expression is true in the page. Queried from here: the pages' policy forbids texts that a script runs (wait_for_function)."""
        eventually(lambda: self.page.evaluate(expression), expression)

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        overflow: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return overflow

    def violations(self) -> list[tuple[str, list[str]]]:
        """What axe finds, each with the elements."""
        result = Axe().run(self.page).response["violations"]
        return [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in result]

    def focused(self) -> str:
        """The text, label or name of what has the focus."""
        text: str = self.page.evaluate(
            "(() => { const one = document.activeElement; return one.getAttribute('aria-label') || one.name || one.textContent.trim(); })()"
        )
        return text

    def tab_to(self, name: str, *, steps_max: int = 80) -> None:
        """With the Tab key alone."""
        for _ in range(steps_max):
            self.page.keyboard.press("Tab")
            if self.focused() == name:
                return
        raise AssertionError(f"Tab does not come to {name!r}; last: {self.focused()!r}")
