"""What `make pages` writes is current, and says what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest

from tests.support.commands_page import commands, renewed
from tests.support.pages import COMMANDS, DEPLOY, MAN, METRICS, stale
from tests.support.picture import drawn

SVG = "{http://www.w3.org/2000/svg}"

PICTURE = """# why

box a 0 0 A & B | first
box b 1 0 C
box c 0 1 D
group all a b
arrow a b to
arrow c a
arrow c b
"""


def test_the_pages_and_pictures_are_current() -> None:
    assert stale() == [], "make pages"


def test_a_command_without_a_place_on_the_page_is_an_error() -> None:
    page = COMMANDS.read_text()
    with pytest.raises(ValueError, match="dumppause"):
        renewed(page.replace("command dumppause:", "command dumpauses:"))


def test_every_option_is_on_the_page_and_no_hidden_one() -> None:
    page = COMMANDS.read_text()
    blocks = dict(re.findall(r"<!-- ([a-z ]+): begin -->\n(.*?)<!-- \1: end -->", page, flags=re.DOTALL))
    for name, command in commands().items():
        block = blocks[f"command {name}"] + blocks["every dump command"]
        for param in command.params:
            shown = f"`{param.opts[0]}`" in block if param.param_type_name == "option" else True
            assert shown != bool(getattr(param, "hidden", False)), f"{param.opts} of {name}"


def test_the_man_page_has_each_command_once_with_its_options() -> None:
    page = MAN.read_text().replace("\\-", "-")
    names, parts = re.findall(r"^\.SS (\S+)", page, re.MULTILINE), re.split(r"^\.S[SH] .*\n", page, flags=re.MULTILINE)
    assert sorted(names) == sorted(commands())
    common = next(part for part in parts if "--token-file" in part)
    for name, part in zip(re.findall(r"^\.S[SH] (\S+)", page, re.MULTILINE), parts[1:], strict=True):
        options = [param for param in commands()[name].params if not getattr(param, "hidden", False)] if name in commands() else []
        for param in options:
            word = param.opts[0] if param.param_type_name == "option" else param.name.upper()
            assert re.search(rf"^\.B (.*, )?{re.escape(word)}(,|$)", part + common, re.MULTILINE), f"{word} of {name}"


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_man_has_nothing_to_say_of_its_page() -> None:
    done = subprocess.run(["man", "--warnings", "--local-file", str(MAN)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "dumpverify" in done.stdout


@pytest.mark.parametrize("file", ["prometheus/alerts.yaml", "grafana/dashboard.json"])
def test_every_metric_of_alerts_and_panels_is_on_the_page(file: str) -> None:
    """The page is made of a status without sinks and dumps: a metric that only these had would be missed."""
    named = set(re.findall(r"\bticdc_dump_\w+", (DEPLOY / file).read_text()))
    listed = set(re.findall(r"^\| `(\w+)(?:\{.+\})?` \|", METRICS.read_text(), re.MULTILINE))
    assert len(named) > 10
    assert named <= listed


def test_a_picture_has_every_box_and_arrow_and_is_xml() -> None:
    picture = ET.fromstring(drawn(PICTURE))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts == ["A & B", "first", "C", "D", "all", "to"]
    assert sum(path.get("class") == "arrow" for path in picture.iter(f"{SVG}path")) == 3


def test_a_picture_that_is_not_understood_is_an_error() -> None:
    with pytest.raises(ValueError, match="circle"):
        drawn("circle a 0 0")
    with pytest.raises(KeyError):
        drawn("box a 0 0 A\narrow a b")
