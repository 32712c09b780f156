"""Imports point down only, and the public names are where they are said to be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import unshuffle
from house import FILES, LEVEL, ROOT, imports, room


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_down(file):
    own = room(file)
    assert own in LEVEL, f"{own} is in no layer"
    for other in imports(file):
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
