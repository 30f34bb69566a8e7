"""Templates of pages, for reports and for the console: a value is text and never markup, and one that is missing is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.report.figures import amount, asker_text, clock_time, duration

if TYPE_CHECKING:
    from jinja2 import Environment


def templates(package: str) -> Environment:
    """Those of `package`'s folder `pages`. jinja2 is loaded here: a sidecar that makes no page has no use for it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader(package, "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    pages.filters.update(duration=duration, amount=amount, clock_time=clock_time, asker=asker_text)
    return pages
