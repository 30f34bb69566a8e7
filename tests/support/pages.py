"""`make pages`: the pages and pictures that are made from the code; `--check` fails if what is committed differs."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from sidecar.cli.completion import Shell, completed, script
from sidecar.cli.main import app
from sidecar.setup.sql import ACCOUNT, account_sql, watermark_sql
from tests.support import changefeeds_page, helm_schema, man_page, metrics_page
from tests.support.commands_page import renewed
from tests.support.picture import drawn

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
IMAGES, COMMANDS, METRICS, SQL = DEPLOY / "images", DEPLOY / "COMMANDS.md", DEPLOY / "METRICS.md", DEPLOY / "sql"
MAN, COMPLETION = DEPLOY / "man" / "ticdc-dump.1", DEPLOY / "completion"
SHELL_FILES = {Shell.BASH: "ticdc-dump", Shell.ZSH: "_ticdc-dump", Shell.FISH: "ticdc-dump.fish"}
"""Each as its shell names a file that it looks for."""
VALUES = DEPLOY / "helm" / "ticdc-dump" / "values.schema.json"
CHANGEFEEDS = DEPLOY / "CHANGEFEEDS.md"


def made() -> dict[Path, str]:
    """What each file holds when it is current."""
    pictures = {path.with_suffix(".svg"): drawn(path.read_text()) for path in sorted(IMAGES.glob("*.txt"))}
    sql = {SQL / "changefeed_dump.sql": watermark_sql(), SQL / "account.sql": account_sql(ACCOUNT, ["shop"])}
    shells = {COMPLETION / SHELL_FILES[shell]: script(shell, completed(typer.main.get_command(app))) for shell in Shell}
    return (
        pictures
        | sql
        | shells
        | {
            MAN: man_page.page(),
            VALUES: helm_schema.schema(),
            COMMANDS: renewed(COMMANDS.read_text()),
            METRICS: metrics_page.page(),
            CHANGEFEEDS: changefeeds_page.page(),
        }
    )


def stale() -> list[str]:
    """The files that are not what the code makes of them."""
    return [str(path.relative_to(ROOT)) for path, text in made().items() if not path.is_file() or path.read_text() != text]


def main(*, check: bool) -> int:
    if check:
        for name in (names := stale()):
            print(f"{name} is not current: make pages", file=sys.stderr)  # noqa: T201  # a command
        return bool(names)
    for path, text in made().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(check="--check" in sys.argv[1:]))
