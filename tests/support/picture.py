"""A picture as text to the same picture as SVG, readable on a light and on a dark page.

    box NAME COLUMN ROW TITLE | SUBTITLE     a box in a grid of columns and rows
    group TITLE NAME NAME …                  a dashed frame around boxes
    arrow FROM TO LABEL                      to the right in a row, upwards in a column, else to the side and then upwards

A line that begins with `#` is a comment. Lengths are pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

BOX_WIDTH, BOX_HEIGHT = 138, 52
COLUMN_WIDTH, ROW_HEIGHT = 172, 92
MARGIN = 28
PADDING = 14
"""Between a group's frame and its boxes."""

STYLE = """
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328; text-anchor: middle }
  .title { font-weight: 600 } .small, .label { font-size: 11px; fill: #59636e }
  .box { fill: #f6f8fa; stroke: #59636e } .group { fill: none; stroke: #0969da; stroke-dasharray: 5 4 } .name { fill: #0969da }
  .arrow { fill: none; stroke: #59636e; stroke-width: 1.4; marker-end: url(#tip) } .tip { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small, .label { fill: #9198a1 } .box { fill: #151b23; stroke: #9198a1 }
    .group { stroke: #4493f8 } .name { fill: #4493f8 } .arrow { stroke: #9198a1 } .tip { fill: #9198a1 }
  }
"""


@dataclass(frozen=True, slots=True)
class Box:
    column: int
    row: int
    title: str
    subtitle: str

    @property
    def left(self) -> int:
        return MARGIN + self.column * COLUMN_WIDTH

    @property
    def top(self) -> int:
        return MARGIN + PADDING + self.row * ROW_HEIGHT

    @property
    def right(self) -> int:
        return self.left + BOX_WIDTH

    @property
    def bottom(self) -> int:
        return self.top + BOX_HEIGHT

    @property
    def centre(self) -> int:
        return self.left + BOX_WIDTH // 2

    @property
    def middle(self) -> int:
        return self.top + BOX_HEIGHT // 2


def drawn(source: str) -> str:
    """The SVG. Raises ValueError for a line that is none of the three, KeyError for a box that is not there."""
    boxes: dict[str, Box] = {}
    shapes: list[str] = []
    for line in source.splitlines():
        match line.split():
            case [] | ["#", *_]:
                continue
            case ["box", name, column, row, *words]:
                title, _, subtitle = " ".join(words).partition(" | ")
                boxes[name] = Box(int(column), int(row), title, subtitle)
                shapes.append(_box(boxes[name]))
            case ["group", title, *names]:
                shapes.append(_group(title, [boxes[name] for name in names]))
            case ["arrow", start, end, *words]:
                shapes.append(_arrow(boxes[start], boxes[end], " ".join(words)))
            case _:
                raise ValueError(f"{line!r} is no box, group or arrow")
    width = max(box.right for box in boxes.values()) + MARGIN
    height = max(box.bottom for box in boxes.values()) + MARGIN + PADDING
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip += '<path class="tip" d="M0 0 8 4 0 8z"/></marker>'
    return "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{tip}</defs>", *shapes, "</svg>", ""])


def _text(kind: str, x: int, y: int, words: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>' if words else ""


def _box(box: Box) -> str:
    frame = f'<rect class="box" x="{box.left}" y="{box.top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
    return frame + _text("title", box.centre, box.middle - 4, box.title) + _text("small", box.centre, box.middle + 14, box.subtitle)


def _group(title: str, boxes: list[Box]) -> str:
    left, top = min(box.left for box in boxes) - PADDING, min(box.top for box in boxes) - PADDING
    width = max(box.right for box in boxes) + PADDING - left
    height = max(box.bottom for box in boxes) + PADDING - top
    frame = f'<rect class="group" x="{left}" y="{top}" width="{width}" height="{height}" rx="10"/>'
    return frame + _text("name", left + width // 2, top - 6, title)


def _arrow(start: Box, end: Box, label: str) -> str:
    if start.row == end.row:
        path, x, y = f"M{start.right} {start.middle}H{end.left}", (start.right + end.left) // 2, start.middle - 8
    elif start.column == end.column:
        path, x, y = f"M{start.centre} {start.top}V{end.bottom}", start.centre, (start.top + end.bottom) // 2
    else:
        side = start.left if end.column < start.column else start.right
        path, x, y = f"M{side} {start.middle}H{end.centre}V{end.bottom}", (side + end.centre) // 2, start.middle - 8
    return f'<path class="arrow" d="{path}"/>' + _text("label", x, y, label)
