"""Layouts whose clusters jump at a temperature: where several weak seams must tell together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unshuffle.compute.jit import have_numba
from unshuffle.solve.grid import reassembly, shaking
from unshuffle.solve.grid.affinity import Affinities
from unshuffle.solve.grid.reassembly import Effort, Reassembly
from unshuffle.solve.grid.seams import Bonds, Listed, SeamScores
from unshuffle.solve.grid.segments import shift_segments, total_score

H, W = 10, 12


def as_lists(matrix):
    row, column = np.nonzero(matrix > 0)
    n = len(matrix)
    return Listed.of(np.searchsorted(row, np.arange(n + 1)), column, matrix[row, column], np.zeros(n, np.float32)).lists


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.floats(1e-9, 2), st.integers(0, 10**6))
def test_jumps_keep_permutations_and_when_cold_never_lose(h, w, temperature, seed):
    n = h * w
    rng = np.random.default_rng(seed)
    right, below = rng.random((2, n, n), np.float32) * (rng.random((2, n, n)) < 0.5)
    start, draws = rng.permutation(n), rng.random((300, 6), np.float32)
    seams, bonds = SeamScores(right, below, h, w), Bonds.of(right, below, 4)
    found = []
    for heat, scores in (
        (temperature, seams),
        (1e-9, seams),
        (temperature, SeamScores(as_lists(right), as_lists(below), h, w)),
    ):
        order = start.copy()
        shaking.shake(order, np.arange(n), scores, scores, bonds, heat, draws)
        assert sorted(order.tolist()) == list(range(n))
        found.append(order)
    assert total_score(found[1], seams) >= total_score(start, seams) - 1e-4
    assert found[0].tolist() == found[2].tolist()


def plain(seed):
    """Clusters of 2 x 2 tiles with clear seams inside. Between them true seams say little: each tile has rivals on those sides that look as well."""
    n = H * W
    rng = np.random.default_rng(seed)
    tiles = np.arange(n).reshape(H, W)
    matrices = []
    for a, b, place in (
        (tiles[:, :-1], tiles[:, 1:], np.arange(W - 1)[None] + 0 * tiles[:, 1:]),
        (tiles[:-1], tiles[1:], np.arange(H - 1)[:, None] + 0 * tiles[1:]),
    ):
        affinity = np.zeros((n, n), np.float32)
        between = a[place % 2 == 1], b[place % 2 == 1]
        for _ in range(9):
            affinity[between[0], rng.permutation(between[1])] = rng.uniform(0.1, 0.3, between[0].size)
        affinity[between] = rng.uniform(0.1, 0.3, between[0].size)
        affinity[a[place % 2 == 0], b[place % 2 == 0]] = 0.9
        matrices.append(affinity)
    right, below = matrices
    score = right - np.where(right > 0, 0.3, 1), below - np.where(below > 0, 0.3, 1)
    belief = Affinities(right, below, Bonds.of(right, below, 10), (H, W), score)
    blocks = tiles.reshape(H // 2, 2, W // 2, 2).transpose(0, 2, 1, 3).reshape(-1, 2, 2)
    mixed = blocks[rng.permutation(len(blocks))].reshape(H // 2, W // 2, 2, 2).transpose(0, 2, 1, 3)
    return belief, mixed.reshape(-1)


@pytest.mark.skipif(not have_numba, reason="too slow without")
def test_weak_seams_tell_together_what_no_better_step_leads_to(monkeypatch):
    belief, start = plain(seed=1)
    moves = belief.worth, belief.glue, belief.bonds
    assert belief.total(shift_segments(start, *moves)) < belief.total(np.arange(H * W)) - 1
    found = shaking.shaken(start, belief, np.random.default_rng(0))
    assert shift_segments(found, *moves).tolist() == list(range(H * W))


def in_which_round(belief, start, monkeypatch):
    """The rounds in which a layout that no other round makes better is shaken."""
    shaken = []
    monkeypatch.setattr(Reassembly, "_regrown", lambda self, local: None)
    monkeypatch.setattr(reassembly, "shaken", lambda order, *_: shaken.append(search.round) or order)
    search = Reassembly(start, belief, np.random.default_rng(0), Effort())
    search.advance(20)
    return shaken


def test_what_other_rounds_leave_wrong_is_shaken_once(monkeypatch):
    belief, start = plain(seed=1)
    assert in_which_round(belief, start, monkeypatch) == [reassembly.SHAKEN]


def test_what_is_sure_is_not_shaken(monkeypatch):
    belief, _ = plain(seed=0)
    sure = Affinities(belief.right * 0 + 0.9, belief.below * 0 + 0.9, belief.bonds, (H, W), belief.score)
    assert in_which_round(sure, np.arange(H * W), monkeypatch) == []
    assert shaking.shaken(np.arange(H * W), sure, np.random.default_rng(0)).tolist() == list(range(H * W))


def test_what_is_plain_is_not_shaken(monkeypatch):
    """Between the clusters nobody is likely: their seams are as weak wherever they go."""
    belief, start = plain(seed=1)
    right, below = (np.where(matrix < 0.9, 0.2 * matrix, matrix) for matrix in (belief.right, belief.below))
    level = Affinities(right, below, Bonds.of(right, below, 10), (H, W), belief.score)
    assert (level.weak_seams(start, reassembly.WEAK) > 0).mean() > 0.9
    assert in_which_round(level, start, monkeypatch) == []


def test_who_is_stopped_is_not_waited_for(monkeypatch):
    """Between two looks at whether to go on a large board would be shaken for many seconds."""
    belief, order = plain(seed=0)
    asked, jumps = [], []
    monkeypatch.setattr(shaking, "AT_ONCE", 100)
    monkeypatch.setattr(shaking, "shake", lambda *given: jumps.append(len(given[-1])))
    shaking.shaken(order, belief, np.random.default_rng(0), lambda: bool(asked.append(0)) or len(asked) < 4)
    assert jumps == [100, 100, 100]
