"""The notebooks run from top to bottom, as a kernel would run them: cell after cell in one namespace, results shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(cell: str, namespace: dict[str, Any]) -> Any:
    """The value of the last line, if it is an expression and not silenced."""
    tree = ast.parse(cell)
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and not cell.rstrip().endswith(";")
    body = ast.Module(tree.body[:-1] if shown else tree.body, [])
    exec(compile(body, "cell", "exec"), namespace)
    return (
        eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
        if isinstance(last, ast.Expr) and shown
        else None
    )


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_notebook(book, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(book.read_text())["cells"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    pictures = shown = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "kept without outputs"
            value = run("".join(cell["source"]), namespace)
            shown += hasattr(value, "_repr_html_") and "<img" in value._repr_html_()
            for number in pyplot.get_fignums():
                pyplot.figure(number).savefig(tmp_path / f"{number}.png", dpi=40)
                pictures += 1
            pyplot.close("all")
    assert pictures >= 2
    assert shown >= 1
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".png"], "a notebook writes nothing"


@pytest.mark.skipif(not FOLDER.exists(), reason="needs the source tree")
def test_there_are_three_and_a_readme():
    assert len(BOOKS) == 3
    text = (FOLDER / "README.md").read_text()
    assert all(book.name in text for book in BOOKS)
