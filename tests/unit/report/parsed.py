"""Reports and pictures as a parser of XML sees them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markupsafe import Markup

VOID = re.compile(r"<(meta[^>]*)>")
HOSTILE = """</title></svg><script>alert("1")</script><img src=x onerror='x'>&lt;"""


def figure(drawing: Markup) -> ElementTree.Element:
    """Raises for what is not well-formed."""
    return ElementTree.fromstring(str(drawing))


def page(html: str) -> ElementTree.Element:
    """A page whose elements are all ended, but for `meta`. Raises for another."""
    return ElementTree.fromstring(VOID.sub(r"<\1/>", html.removeprefix("<!doctype html>\n")))


def tags(root: ElementTree.Element) -> set[str]:
    return {one.tag for one in root.iter()}


def attributes(root: ElementTree.Element) -> set[str]:
    return {name for one in root.iter() for name in one.attrib}


def texts(root: ElementTree.Element, path: str) -> list[str]:
    return ["".join(one.itertext()).strip() for one in root.iterfind(path)]


def numbers(root: ElementTree.Element, kind: str, *names: str) -> list[tuple[float, ...]]:
    """These attributes of all elements of a class."""
    result = (one for one in root.iter() if kind in one.get("class", "").split())
    return [tuple(float(one.get(name, "nan")) for name in names) for one in result]


def points(root: ElementTree.Element, kind: str) -> list[list[tuple[float, float]]]:
    """Of each line of a class."""
    result = (one.get("points", "").split() for one in root.iter() if kind in one.get("class", "").split() and one.get("points"))
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in line)] for line in result]
