"""Segments that are each other's best are joined: by what all seams between them say, wherever on the board they stand."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unshuffle.compute.jit import have_numba
from unshuffle.solve.grid import reassembly
from unshuffle.solve.grid.affinity import Affinities
from unshuffle.solve.grid.joining import as_evidence, joined
from unshuffle.solve.grid.reassembly import Effort, Reassembly
from unshuffle.solve.grid.regrow import regrow_by_segments
from unshuffle.solve.grid.seams import NO_MASK, Bonds, Listed, RowLists, SeamScores
from unshuffle.solve.grid.segments import segments

H, W = 6, 8


def evidence(seams: SeamScores) -> SeamScores:
    """`as_evidence` of a copy."""
    return as_evidence(deepcopy(seams))


def blocks(inside: float, between: float, chance: float = 0.0) -> tuple[Affinities, np.ndarray]:
    """Tile c belongs in cell c. Seams inside of the four quarters have one affinity, those between them another, wrong ones that of chance."""
    n = H * W
    right, below = np.full((2, n, n), chance, np.float32)
    quarter = np.add.outer(np.arange(H) // (H // 2) * 2, np.arange(W) // (W // 2)).reshape(-1)
    for matrix, step, stays in ((right, 1, np.arange(n) % W < W - 1), (below, W, np.arange(n) < n - W)):
        a = np.flatnonzero(stays)
        matrix[a, a + step] = np.where(quarter[a] == quarter[a + step], inside, between)
    return Affinities(right, below, Bonds.of(right, below, 10), (H, W), (right, below)), quarter


def test_quarters_that_share_only_plain_seams_are_joined_to_the_picture():
    """Growth by affinity leaves them: each of the seams between them has less than its toll."""
    belief, _ = blocks(inside=0.9, between=0.09)
    order = np.arange(H * W).reshape(H, W)
    mixed = np.roll(order, (H // 2, W // 2), (0, 1)).reshape(-1)  # every quarter whole, and none beside its neighbours
    label = segments(mixed, belief.glue, 0.5, True)
    assert len(set(label.tolist())) == 4
    left = regrow_by_segments(mixed, belief.glue, belief.bonds, label, NO_MASK, 0.1)
    assert (left >= 0).sum() == H * W // 4
    parts = joined(mixed, label, evidence(belief.glue), belief.bonds)
    assert (parts.label == parts.label[0]).all()
    assert (parts.y * W + parts.x).tolist() == list(range(H * W))


def test_one_good_seam_among_bad_ones_joins_nothing():
    belief, quarter = blocks(inside=0.9, between=0.0)
    first, second = np.flatnonzero(quarter == 0)[-1], np.flatnonzero(quarter == 1)[-W // 2]
    belief.right[first, second] = 0.4
    glue = belief.glue
    parts = joined(np.arange(H * W), quarter, evidence(glue), Bonds.of(belief.right, belief.below, 10))
    assert len(set(parts.label.tolist())) == 4


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(2, 5), st.floats(0, 1), st.integers(0, 10**6))
def test_no_two_tiles_of_a_part_share_a_cell_and_all_parts_fit_the_frame(h, w, least, seed):
    rng, n = np.random.default_rng(seed), h * w
    right, below = rng.random((2, n, n), np.float32) ** 2
    seams, order = SeamScores(right, below, h, w), rng.permutation(n)
    label = segments(order, seams, least, False)
    parts = joined(order, label, evidence(seams), Bonds.of(right, below, 5))
    for part in np.unique(parts.label):
        of = parts.label == part
        assert len(set(zip(parts.y[of].tolist(), parts.x[of].tolist(), strict=True))) == of.sum()
        assert parts.y[of].min() == parts.x[of].min() == 0
        assert parts.y[of].max() < h
        assert parts.x[of].max() < w
    y, x = np.empty(n, int), np.empty(n, int)
    y[order], x[order] = np.divmod(np.arange(n), w)
    for segment in np.unique(label):  # stays as it stood, wherever it went
        of = label == segment
        assert len(set(parts.label[of].tolist())) == 1
        assert len(set((parts.y - y)[of].tolist())) == len(set((parts.x - x)[of].tolist())) == 1


def test_evidence_is_one_for_sure_seams_and_nothing_from_chance_on_in_lists_too():
    affinity = np.array([[0, 1, 0.5, 0.25], [0.1, 0, 0, 1e-9], [0, 0, 0, 0], [1, 0.26, 0.9, 0]], np.float32)
    found = evidence(SeamScores(affinity, affinity, 2, 2)).right
    assert isinstance(found, np.ndarray)
    assert found[0].tolist() == pytest.approx([0, 1, 0.5, 0])
    assert found[1].tolist() == [0, 0, 0, 0]
    row, column = np.nonzero(affinity)
    first = np.searchsorted(row, np.arange(5))
    lists = Listed.of(first, column, affinity[row, column], np.zeros(4, np.float32)).lists
    listed = evidence(SeamScores(lists, lists, 2, 2)).right
    assert isinstance(listed, RowLists)
    assert listed.value.tolist() == found[row, column].tolist()
    assert not listed.other.any()


@pytest.mark.skipif(not have_numba, reason="too slow without")
def test_a_large_board_whose_quarters_stand_wrong_is_right_after_a_round(monkeypatch):
    monkeypatch.setattr(reassembly, "LARGE", H * W)
    belief, _ = blocks(inside=0.9, between=0.09, chance=1e-4)
    mixed = np.arange(H * W).reshape(H, W)[:, np.r_[4:8, 0:4]]
    mixed[:3], mixed[3:] = mixed[3:].copy(), mixed[:3].copy()
    monkeypatch.setattr(Reassembly, "_shifted", lambda self, order, passes=10: order)  # else that would do it
    search = Reassembly(mixed.reshape(-1), belief, np.random.default_rng(0), Effort(most=2))
    search.advance(2)
    assert search.order.tolist() == list(range(H * W))
