"""Parts of arrays written item by item are what slices and index arrays would have written."""

import numpy as np
import pytest

from unshuffle.compute.copying import copy_into, places_into, reverse


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
def test_reverse_of_a_part_leaves_the_rest(n: int) -> None:
    order = np.arange(10)
    expected = np.concatenate((order[1 : 1 + n][::-1], order[1 + n :]))
    reverse(order[1 : 1 + n])
    assert order[0] == 0
    assert np.array_equal(order[1:], expected)


def test_a_stretch_moves_to_the_left_over_itself() -> None:
    order = np.arange(10)
    copy_into(order[1:], order[3:8])
    assert order.tolist() == [0, 3, 4, 5, 6, 7, 6, 7, 8, 9]


def test_places_are_the_inverse() -> None:
    order = np.random.default_rng(0).permutation(20)
    place = np.empty(20, np.int64)
    places_into(place, order)
    assert np.array_equal(place, np.argsort(order))
