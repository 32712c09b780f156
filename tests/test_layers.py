"""Imports point down only, and the public names are where they are said to be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import unshuffle

ROOT = Path(unshuffle.__file__).parent
LAYERS = [  # from the ground up; modules of one layer may use each other
    {"errors", "files", "shapes", "watch"},
    {"compute"},
    {"operators"},
    {"temperature", "structure", "readers", "metrics"},
    {"relaxations", "networks"},
    {"learn", "solve"},
    {"tasks", "recipes"},
    {"report", "paper", "bench"},
    {"cli", "studio", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports(file: Path) -> set[str]:
    """Top-level modules of the package that a file imports."""
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
    return found


FILES = sorted(f for f in ROOT.rglob("*.py") if f != ROOT / "__init__.py")


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_down(file):
    own = file.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in LEVEL, f"{own} is in no layer"
    for other in imports(file) - {own, "__version__"}:
        assert LEVEL[other] <= LEVEL[own], f"{own} imports {other}, which is above it"


def test_numba_is_met_in_two_rooms_only():
    for file in FILES:
        if {"numba", "llvmlite"} & {n.split(".")[0] for n in _absolute(file)}:
            assert file.relative_to(ROOT).parts[0] == "compute" or "_sinkhorn" in file.parts, file


def test_kernels_live_with_what_they_are_kernels_of():
    """Whatever is compiled asks `compute.jit` for it; a task, a network or a command has no kernels."""
    with_kernels = {file.relative_to(ROOT).parts[0] for file in FILES if "compute.jit" in file.read_text()}
    compiled = {file.relative_to(ROOT).parts[0] for file in FILES if "njit" in file.read_text()}
    assert compiled <= {"compute", "operators", "solve"}
    assert with_kernels <= {"compute", "operators", "solve", "cli"}  # bench says whether numba is there


def _absolute(file: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


def test_public_names_exist_and_are_seen_by_type_checkers():
    for name in unshuffle.__all__:
        assert getattr(unshuffle, name) is not None
    assert callable(unshuffle.solve)
    tree = ast.parse((ROOT / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    typed = {a.asname or a.name for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for a in node.names}
    assert typed == set(unshuffle._HOME) | set(unshuffle._MODULES)
    with pytest.raises(AttributeError, match="no_such_name"):
        unshuffle.no_such_name  # noqa: B018
