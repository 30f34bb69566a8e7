"""What this environment is made of, as a CycloneDX 1.6 document (JSON) on standard output: `python sbom.py`.

Components are the Python distributions of the environment that runs it, the jars of its pyspark by the Maven coordinates that they hold,
and where dpkg is, Debian's packages. The same environment gives the same document: it has no time, and no number of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

NAME = "ticdc-dump"


def python_packages() -> Iterator[dict[str, Any]]:
    for one in distributions():
        name = one.metadata["Name"]
        wanted = one.metadata["License-Expression"] or one.metadata["License"] or ""
        licenses = [{"license": {"name": " ".join(wanted.split())[:200]}}] if wanted.strip() else []
        yield _component(f"pkg:pypi/{quote(name.lower().replace('_', '-'))}@{one.version}", name, one.version, licenses=licenses)


def jars(folder: Path) -> Iterator[dict[str, Any]]:
    """By `pom.properties`, else by the file's name. The hash is the file's."""
    for path in sorted(folder.glob("*.jar")):
        name, _, number = path.stem.rpartition("-")
        purl = f"pkg:generic/{quote(path.name)}"
        with zipfile.ZipFile(path) as jar:
            for pom in (one for one in jar.namelist() if one.endswith("/pom.properties")):
                lines = (line.partition("=") for line in jar.read(pom).decode(errors="replace").splitlines() if "=" in line)
                told = {key.strip(): value.strip() for key, _, value in lines}
                if path.stem == f"{told.get('artifactId')}-{told.get('version')}":
                    name, number = told["artifactId"], told["version"]
                    purl = f"pkg:maven/{quote(told.get('groupId', ''))}/{quote(name)}@{quote(number)}"
        digest = {"alg": "SHA-256", "content": sha256(path.read_bytes()).hexdigest()}
        yield _component(purl, name or path.stem, number, hashes=[digest])


def debian_packages() -> Iterator[dict[str, Any]]:
    if shutil.which("dpkg-query") is None:
        return
    command = ["dpkg-query", "--show", "--showformat", "${Package}\t${Version}\t${Architecture}\n"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        name, number, machine = line.split("\t")
        yield _component(f"pkg:deb/debian/{quote(name)}@{quote(number)}?arch={machine}", name, number)


def _component(purl: str, name: str, number: str, **more: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": number,
        "purl": purl,
        **{key: one for key, one in more.items() if one},
    }


def document() -> dict[str, Any]:
    spec = find_spec("pyspark")
    spark = Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else Path()
    parts = {one["bom-ref"]: one for one in (*python_packages(), *jars(spark), *debian_packages())}
    own = parts.pop(f"pkg:pypi/{NAME}@{version(NAME)}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": [parts[ref] for ref in sorted(parts)],
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": sorted(parts)}],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=1) + "\n")
