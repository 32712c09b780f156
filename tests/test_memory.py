"""Memory of large results is used again, and never while somebody still looks at it."""

from __future__ import annotations

import gc
import weakref

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


ALLOWED = torch.eye(70, dtype=torch.bool) | (torch.arange(70) % 3 > 0)
CALLS = {
    "sinkhorn": lambda scores, n: us.sinkhorn(scores),
    "large scores": lambda scores, n: us.sinkhorn(scores * 900),
    "samples": lambda scores, n: us.gumbel_sinkhorn(scores, samples=2),
    "a beta for each entry": lambda scores, n: us.gumbel_sinkhorn(scores, torch.rand(16, n, n) + 0.5, samples=2),
    "local": lambda scores, n: us.gumbel_sinkhorn(scores, samples=2, local=us.LocalTemperature()),
    "masked": lambda scores, n: us.gumbel_sinkhorn(scores, allowed=ALLOWED[:n, :n], local=us.LocalTemperature()),
    "learned beta": lambda scores, n: us.gumbel_sinkhorn(scores, torch.ones(16, 1, 1, requires_grad=True)),
    "rejecting": lambda scores, n: us.sinkhorn(scores, reject=0.5),
    "rectangular": lambda scores, n: us.gumbel_sinkhorn(scores[:, : n - 1]),
    "tolerance": lambda scores, n: us.sinkhorn(scores, tolerance=1e-3),
}


@pytest.mark.parametrize("n", [4, 10, 24, 70])
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_held_on_to_once_the_gradient_is_there(call, n):
    entries, weights = (np.random.default_rng(k).normal(size=(16, n, n)).astype(np.float32) for k in range(2))
    seen = [weakref.ref(array) for array in (entries, weights)]
    scores = torch.from_numpy(entries).requires_grad_()
    P = CALLS[call](scores, n)
    upon = torch.from_numpy(weights)[:, : P.shape[-2]]
    P.backward(upon if P.ndim == 3 else upon.expand(P.shape))
    del entries, weights, scores, P, upon
    gc.collect()
    assert [array() for array in seen] == [None, None]
