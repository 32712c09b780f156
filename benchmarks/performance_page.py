"""Writes the tables of docs/performance.md from results: python benchmarks/performance_page.py"""

from __future__ import annotations

import json
import re
from pathlib import Path

from unshuffle.bench.timing import shown_range

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
BENCH = ROOT / "results" / "bench" / "bench.json"
SOLVE = ROOT / "results" / "solve_growth.json"


def _if_there(milliseconds: float | None) -> str:
    """Of a package that may not be installed, or in an older file."""
    return "-" if milliseconds is None else f"{milliseconds:.1f}"


def steps(found: list[dict]) -> str:
    rows = [
        (
            f"{r['batch']} x {r['n']}",
            f"{r['ours']:.1f}",
            f"{r['plain']:.0f}",
            shown_range(r, "ratio"),
            *(shown_range(r, name, percent=True) for name in ("overhead", "lead")),
            _if_there(r.get("rest")),
        )
        for r in found
    ]
    head = (
        "batch x n",
        "ours",
        "plain way",
        "times faster",
        "controller adds",
        "entropy target adds",
        "without Sinkhorn",
    )
    return table(head, rows)


def tables(bench: dict, solve: dict) -> dict[str, str]:
    """Marker of the page -> Markdown."""
    speed = [
        (f"{r['batch']} x {r['n']}, {r['iterations']}", f"{r['ours']:.2f}", f"{r['plain']:.1f}", _if_there(r["pot"]),
         _if_there(r["pygmtools"]), shown_range(r, "ratio"))
        for r in bench["speed"]
    ]  # fmt: skip
    scores = [
        (
            f"{r['batch']} x {r['n']}, {r['iterations']}",
            r["scores"],
            f"{r['spread']:.0f}",
            f"{r['ours']:.2f}",
            f"{r['plain']:.1f}",
            shown_range(r, "ratio"),
            "-" if r.get("hard") is None else f"{r['hard']:.2f}",
            f"{1e3 * r['ours'] / r['batch']:.2f}",
            f"{100 * r['share_of_roofline']:.0f} %",
        )
        for r in bench["scores"]
    ]
    tour = [
        (
            f"{r['batch']} x {r['n']}",
            f"{r['ours']:.0f}",
            f"{r['loss_and_backward']:.0f}",
            f"{r['plain']:.0f}",
            shown_range(r, "ratio"),
        )
        for r in bench["tour"]
    ]
    memory = [
        (
            str(r["iterations"]),
            f"{r['ours']:.2f}",
            f"{r['vectors']:.2f}",
            "-" if r["plain"] is None else f"{r['plain']:.0f}",
        )
        for r in bench["memory"]
    ]
    growth = [
        (f"{r['batch']} x {r['n']}", f"{r['milliseconds']:.1f}", f"{r['nanoseconds_per_entry_and_iteration']:.2f}")
        for r in bench["growth"]
    ]
    solving = [
        (name, f"{r['cpu_seconds']:.1f}", f"{r['peak_mb']:.0f}", f"{r['cost_mb']:.0f}")
        for name, r in solve["rows"].items()
    ]
    first = bench["first"]
    return {
        "machine": ", ".join(f"{key} {value}" for key, value in bench["machine"].items()),
        "speed": table(("batch x n, T", "ours", "plain loop", "POT", "pygmtools", "times faster than the loop"), speed),
        "step": steps(bench["step"]),
        "scores": table(
            (
                "batch x n, T",
                "scores",
                "spread",
                "ours",
                "plain loop",
                "times faster",
                "times random scores",
                "us a matrix",
                "of the roofline",
            ),
            scores,
        ),
        "middle": steps(bench["middle"]),
        "tour": table(("batch x n", "ours", "of it loss and backward", "plain way", "times faster"), tour),
        "memory": table(("T", "ours", "of it the 2T vectors", "plain loop"), memory),
        "growth": table(("batch x n", "ms", "ns per entry and iteration"), growth),
        "solving": table(("", "seconds of a core", "peak MB beyond the cost", "cost matrix, MB"), solving),
        "first": f"import {first['import']:.1f} s; first call ever {first['first_process']:.0f} s; first call of the next "
        f"process {first['second_process']:.1f} s",
    }


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def filled(page: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        page = re.sub(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", lambda m, t=text: m[1] + t + m[2], page, flags=re.S)
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), tables(json.loads(BENCH.read_text()), json.loads(SOLVE.read_text()))))
