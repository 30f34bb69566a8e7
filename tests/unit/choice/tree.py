"""A small repository with a product, tests and a history, for the chooser."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.choice.change import changed
from tests.choice.choose import Choice, choose
from tests.choice.graph import Graph

REGISTRY = """
from importlib import import_module

KINDS = {"plain": "plain.sink:PLAIN", "deep": "deep.sink:DEEP"}

def open_sink(uri):
    module, _, name = KINDS[uri.partition(":")[0]].partition(":")
    return getattr(import_module(f"spark_merge.sinks.{module}"), name)
"""
FILES = {
    "sidecar/__init__.py": "",
    "sidecar/core.py": "LIMIT = 3\n\ndef bounded(n):\n    return min(n, LIMIT)\n\ndef other():\n    return 1\n",
    "sidecar/pages/__init__.py": "from pathlib import Path\n\ndef page():\n    return (Path(__file__).parent / 'look.html').read_text()\n",
    "sidecar/pages/look.html": "<p>",
    "sidecar/__main__.py": "from sidecar.cli.main import main\n\nmain()\n",
    "sidecar/cli/__init__.py": "",
    "sidecar/cli/main.py": "from sidecar.core import other\n\ndef main():\n    return other()\n",
    "spark_merge/__init__.py": "",
    "spark_merge/sinks/__init__.py": "",
    "spark_merge/sinks/registry.py": REGISTRY,
    "spark_merge/sinks/plain/__init__.py": "",
    "spark_merge/sinks/plain/sink.py": "from sidecar.core import bounded\n\nPLAIN = bounded\n",
    "spark_merge/sinks/deep/__init__.py": "",
    "spark_merge/sinks/deep/sink.py": "from sidecar.core import other\n\nDEEP = other\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef three():\n    from sidecar.core import LIMIT\n    return LIMIT\n",
    "tests/unit/__init__.py": "",
    "tests/unit/test_core.py": "from sidecar import core\n\ndef test_bounded():\n    assert core.bounded(9) == 3\n\n"
    "def test_other():\n    assert core.other() == 1\n",
    "tests/unit/test_fixture.py": "def test_three(three):\n    assert three == 3\n",
    "tests/unit/test_sinks.py": "from spark_merge.sinks.registry import open_sink\n\ndef test_plain():\n    open_sink('plain://x')\n\n"
    "def test_deep():\n    open_sink('deep:///y')\n",
    "tests/unit/test_process.py": "import subprocess, sys\n\ndef test_program():\n    subprocess.run([sys.executable, '-m', 'sidecar'])\n",
    "tests/unit/test_look.py": "from sidecar.pages import page\n\ndef test_look():\n    assert page()\n",
    "tests/unit/test_program.py": "TEXT = 'from sidecar import pages; pages.page({what})'\n\ndef test_text():\n    assert TEXT\n",
    "tests/unit/test_script.py": "import send\n\ndef test_send():\n    assert send.sent() == 3\n",
    "tests/unit/test_options.py": "from sidecar.cli.commands import app\n\ndef test_options():\n    assert app\n",
    "tests/unit/below/__init__.py": "",
    "tests/unit/below/conftest.py": "import pytest\n\n@pytest.fixture\ndef one():\n    return 1\n\ndef pytest_runtest_setup():\n    pass\n",
    "tests/unit/below/test_below.py": "def test_one(one):\n    assert one\n\ndef test_none():\n    pass\n",
    "sidecar/cli/options.py": "Id = 'an option'\n",
    "sidecar/cli/commands.py": "from __future__ import annotations\nimport typer\nfrom sidecar.cli.options import Id\n\n"
    "app = typer.Typer()\n\ndef show(name: Id):\n    pass\n\napp.command('show')(show)\n",
    "deploy/send.py": "from sidecar.core import LIMIT\n\ndef sent():\n    return LIMIT\n",
    "tests/unit/test_docs.py": "from pathlib import Path\n\nDEPLOY = Path(__file__).parents[2] / 'deploy'\n\n"
    "def test_page():\n    assert (DEPLOY / 'ONE.md').exists()\n",
    "tests/unit/test_guide.py": "def test_all():\n    pass\n",
    "deploy/ONE.md": "one\n",
    "deploy/TWO.md": "two\n",
    "pyproject.toml": "",
}


class Tree:
    """The files above in a repository, and the commit that has them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in FILES.items():
            self.write(name, text)
        self.first = self.commit("first")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def commit(self, message: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", message)):
            subprocess.run(["git", "-C", str(self.root), *words], check=True)
        return subprocess.run(["git", "-C", str(self.root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()

    def choice(self) -> Choice:
        """By what differs from the first commit."""
        return choose(Graph(self.root), changed(self.root, self.first), since=self.first)

    def chosen(self) -> set[str]:
        """Without those that always run."""
        return {name for names in self.choice().chosen.values() for name in names} - {"test_all"}

    def in_turns(self) -> set[str]:
        return {name for names in self.choice().turns.values() for name in names}
