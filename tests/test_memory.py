"""Memory of large results is used again, and never while somebody still looks at it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.compute import memory

SIZE = memory.LARGE // 4


@pytest.fixture(autouse=True)
def nothing_spare():
    gc.collect()
    memory._spare.clear()
    yield
    memory._spare.clear()


def place(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_for_the_same_size():
    first = memory.empty_array((2, SIZE // 2), torch.float32)
    there = place(first)
    del first
    assert place(memory.empty_array((SIZE,), torch.float32)) == there
    other = memory.empty_array((SIZE + 1,), torch.float32)
    assert other.shape == (SIZE + 1,)
    assert other.flags.writeable


def test_memory_that_somebody_looks_at_is_left_alone():
    whole = memory.empty_like(torch.empty(SIZE, dtype=torch.float32))
    there, part = whole.data_ptr(), whole[5:9].numpy()[1:]
    del whole
    assert not memory._spare
    assert place(memory.empty_array((SIZE,), torch.float32)) != there
    part[:] = 3.0
    del part
    assert len(memory._spare) == 2


def test_not_more_is_kept_than_agreed():
    held = [memory.empty_array((8 * SIZE + k,), torch.float32) for k in range(memory.MOST // (4 * memory.LARGE))]
    del held
    assert 0 < sum(room.nbytes for room in memory._spare.values()) <= memory.MOST
    memory.empty_array((memory.MOST // 4 + 1,), torch.float32)
    assert all(room.nbytes < memory.MOST for room in memory._spare.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("count", [10, memory.LARGE // 4 + 3])
def test_shape_and_type_are_those_asked_for(dtype, count):
    values = torch.empty(count, 1, dtype=dtype)
    found = memory.empty_like(values)
    assert (found.shape, found.dtype) == (values.shape, dtype)


def fresh_pages() -> int:
    """That a step of like tensors meets, after two such steps."""
    resource, met = pytest.importorskip("resource"), 0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for size in (2**23, 2**24, 2**23):
            torch.empty(size).fill_(1.0)
        met = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return met


@pytest.mark.skipif(memory._glibc() is None, reason="another C library")
def test_a_training_keeps_the_pages_of_its_steps(monkeypatch):
    for name in memory.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    met = []
    us.fit(
        us.networks.ItemScorer(5), torch.rand(4, 5, 1), us.losses.monotone, us.GumbelSinkhorn(), epochs=1,
        callback=lambda _: met.append(fresh_pages()),
    )  # fmt: skip
    assert met
    assert met[-1] < 100
