"""The mechanism figure shows what it says."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from unshuffle.paper.figures import MechanismCurves
from unshuffle.paper.mechanism import Mechanism
from unshuffle.paper.run import Means, Planned, result_of
from unshuffle.paper.store import Place
from unshuffle.report.mechanism import draw_mechanism


def test_no_scalar_works_in_the_shown_case_and_the_field_does():
    case = Mechanism()
    easy, hard = case.thresholds()
    assert easy > hard
    ((easy_row,), (hard_row,)) = case.diagonals([3.0], adaptive=False)
    assert easy_row >= 1 - case.eps
    assert hard_row > 1 - case.eta
    ((easy_row,), (hard_row,)) = case.diagonals([3.0], adaptive=True)
    assert easy_row >= 1 - case.eps
    assert hard_row <= 1 - case.eta


def test_both_are_hard_in_the_end():
    for adaptive in (False, True):
        ((easy_row,), (hard_row,)) = Mechanism().diagonals([20.0], adaptive)
        assert (easy_row, hard_row) == pytest.approx((1.0, 1.0), abs=1e-3)


def test_the_figure_is_drawn_from_the_result():
    run = MechanismCurves(points=9)
    planned = Planned(run, Place("figures", "", run.task, "", 0, "cpu"))
    figure = draw_mechanism(result_of(planned, 0.0, run.compute(Means(Path())), None, None))
    figure.savefig(picture := BytesIO(), format="png")
    assert len(picture.getvalue()) > 10_000
    assert len(figure.get_axes()) == 2 + 4 * 3
