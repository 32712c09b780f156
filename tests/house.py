"""The house as it stands: which room imports which, drawn from the real imports.

``python tests/house.py`` writes docs/images/house.svg and the table in docs/architecture.md; a test says when they are stale.
"""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "unshuffle"
DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- rooms: written by tests/house.py -->", "<!-- end of rooms -->"
LAYERS = [  # from the ground up; modules of one layer may use each other
    ["errors", "files", "plots", "progress_bar", "shapes", "watch"],
    ["compute"],
    ["operators"],
    ["readers", "structure", "metrics", "temperature"],
    ["networks", "relaxations"],
    ["solve", "learn"],
    ["tasks", "recipes"],
    ["report", "paper", "bench"],
    ["cli", "studio", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(f for f in ROOT.rglob("*.py") if f != ROOT / "__init__.py")


def room(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(file: Path) -> set[str]:
    """Rooms of the package that a file imports."""
    package = ("unshuffle", *file.relative_to(ROOT).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            full = [*base, *(node.module or "").split(".")] if node.module else [*base]
            found |= {full[1]} if len(full) > 1 else {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unshuffle."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("unshuffle.")}
    return found - {room(file), "__version__"}


def leans_on() -> dict[str, set[str]]:
    """Room -> rooms that it imports."""
    rooms: dict[str, set[str]] = {}
    for file in FILES:
        rooms.setdefault(room(file), set()).update(imports(file))
    return rooms


def direct(rooms: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows worth drawing: those that do not follow from others."""
    below: dict[str, set[str]] = {}
    for name in sorted(rooms, key=lambda r: LEVEL[r]):
        below[name] = set().union(*({o} | below.get(o, set()) for o in rooms[name] if LEVEL[o] < LEVEL[name]))
    return {
        (name, other)
        for name, others in rooms.items()
        for other in others
        if LEVEL[other] < LEVEL[name] and not any(other in below.get(o, ()) for o in others - {other})
    }


def about(name: str) -> str:
    """First sentence of the room's docstring."""
    place = ROOT / name
    file = place / "__init__.py" if place.is_dir() else ROOT / f"{name}.py"
    words = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return " ".join(words.split())


def contents(name: str) -> list[str]:
    """Files of a room, folders with a slash."""
    place = ROOT / name
    if not place.is_dir():
        return []
    files = {f.stem for f in place.glob("*.py")} - {"__init__"}
    folders = {f"{f.parent.name}/" for f in place.glob("*/__init__.py")}
    return sorted(folders) + sorted(files)


def table() -> str:
    rooms = leans_on()
    lines = ["| room | what it is | in it | leans on |", "|---|---|---|---|"]
    for names in reversed(LAYERS):
        for name in (n for n in names if n in rooms and n != "__main__"):
            inside = " ".join(contents(name)).replace("_", "\\_")
            what = about(name).replace("|", "\\|")
            lines.append(f"| `{name}` | {what} | {inside} | {' '.join(sorted(rooms[name]))} |")
    return "\n".join(lines)


WIDTH, GAP, LINE, PAD = 1000, 46, 15, 10


def drawing() -> str:
    """Layers from the roof down, a box a room, an arrow where a room leans on another and it does not follow from others."""
    rooms = leans_on()
    boxes: dict[str, tuple[float, float, float, float]] = {}
    y, parts = 10.0, []
    for names in reversed(LAYERS):
        present = [n for n in names if n in rooms and n != "__main__"]
        each = (WIDTH - 20 - 20 * (len(present) - 1)) / len(present)
        text = {n: _wrapped(contents(n), each) for n in present}
        height = 2 * PAD + 16 + LINE * max(len(t) for t in text.values())
        for k, name in enumerate(present):
            x = 10 + k * (each + 20)
            boxes[name] = (x, y, each, height)
            parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{each:.0f}" height="{height:.0f}" rx="8"/>')
            parts.append(f'<text class="room" x="{x + PAD:.0f}" y="{y + PAD + 12:.0f}">{escape(name)}</text>')
            for row, line in enumerate(text[name]):
                at = y + PAD + 16 + LINE * (row + 1) - 3
                parts.append(f'<text x="{x + PAD:.0f}" y="{at:.0f}">{escape(line)}</text>')
        y += height + GAP
    arrows = [_arrow(boxes[a], boxes[b]) for a, b in sorted(direct(rooms)) if a in boxes and b in boxes]
    style = (
        "rect{fill:#eef6f5;stroke:#2a7f78}text{font:11px sans-serif;fill:#333}.room{font:bold 14px sans-serif;fill:#12403c}"
        "path{fill:none;stroke:#8a9a99;stroke-width:1.2;marker-end:url(#a)}marker path{fill:#8a9a99;stroke:none}"
    )
    head = '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto"><path d="M0,1 L7,4 L0,7 z"/></marker></defs>'
    size = f'viewBox="0 0 {WIDTH} {y - GAP + 10:.0f}"'
    label = 'role="img" aria-label="The rooms of unshuffle in layers; arrows point to what a room imports"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f"<style>{style}</style>",
        '<rect width="100%" height="100%" style="fill:white;stroke:none"/>',
        head,
        *arrows,
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _wrapped(names: list[str], width: float) -> list[str]:
    room_for = int((width - 2 * PAD) / 6.2)
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + 1 + len(name) <= room_for:
            lines[-1] += f" {name}"
        else:
            lines.append(name)
    return lines


def _arrow(above: tuple[float, float, float, float], below: tuple[float, float, float, float]) -> str:
    """From the floor of one room to the ceiling of another, where the two are nearest."""
    (x0, y0, w0, h0), (x1, y1, w1, _) = above, below
    start = min(max(x1 + w1 / 2, x0 + 20), x0 + w0 - 20)
    end = min(max(start, x1 + 20), x1 + w1 - 20)
    top, bottom = y0 + h0, y1 - 2
    bend = (bottom - top) / 2
    return f'<path d="M{start:.0f},{top:.0f} C{start:.0f},{top + bend:.0f} {end:.0f},{bottom - bend:.0f} {end:.0f},{bottom:.0f}"/>'


def page(text: str) -> str:
    """The architecture page with its table as of now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    (DOCS / "images" / "house.svg").write_text(drawing())
    file = DOCS / "architecture.md"
    file.write_text(page(file.read_text()))
