"""Work in pieces: every piece once, errors come back, and a forked child works too."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time

import pytest
import torch

import unshuffle as us
from unshuffle.compute import threads as module
from unshuffle.compute.processes import Processes


@pytest.fixture(params=["of torch", "of Python"])
def threads_of(request, monkeypatch):
    if request.param == "of Python":
        monkeypatch.setattr(module, "_team", None)
    elif module._team is None:
        pytest.skip("torch has no OpenMP of GNU's kind here")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_every_number_is_done_once(threads_of):
    for count in (1, 2, 7, 1000):
        done = torch.zeros(count)

        def kernel(low: int, high: int, done=done) -> None:
            done[low:high] += 1

        module.in_chunks(kernel, count)
        assert bool((done == 1).all())


def test_an_error_in_a_piece_is_raised_here(threads_of):
    def kernel(low: int, high: int) -> None:
        raise KeyError(low)

    with pytest.raises(KeyError):
        module.in_chunks(kernel, 50)


def _in_child(answers) -> None:
    done: list[int] = []
    module.in_chunks(lambda low, high: done.extend(range(low, high)), 50)
    answers.put(sorted(done) == list(range(50)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
def test_a_forked_child_has_threads_of_its_own(threads_of):
    module.in_chunks(lambda low, high: None, 50)  # the parent's threads are there
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(answers,))
    child.start()
    assert answers.get(timeout=30)
    child.join(30)


class _Ordered(torch.utils.data.Dataset):
    """What a worker would prepare: a soft permutation with noise, and an order."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(k)
        scores = torch.randn(20, 30, 30, generator=generator)
        return us.gumbel_sinkhorn(scores, generator=generator), us.assign(scores)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
def test_workers_of_a_data_loader_give_what_the_process_itself_gives(threads_of):
    here = [_Ordered()[k] for k in range(6)]
    loader = torch.utils.data.DataLoader(_Ordered(), None, num_workers=2, multiprocessing_context="fork", timeout=60)
    for (soft, order), (expected, expected_order) in zip(loader, here, strict=True):
        assert torch.equal(soft, expected)
        assert torch.equal(order, expected_order)


@pytest.mark.usefixtures("threads_of")
def test_small_steps_leave_torch_one_thread_and_give_it_back():
    before, done = torch.get_num_threads(), []
    assert before == 3
    with contextlib.suppress(ValueError), module.small_steps():
        assert torch.get_num_threads() == 1
        module.in_chunks(lambda low, high: done.extend(range(low, high)), 100)
        with module.small_steps():  # a solve within a solve
            pass
        assert torch.get_num_threads() == 1
        raise ValueError("stop")
    assert sorted(done) == list(range(100))
    assert torch.get_num_threads() == before


def test_small_steps_of_two_threads_leave_torch_as_it_was(monkeypatch):
    """Both are asked for torch's number before either has changed it, as far as a lock lets them; the first comer leaves last."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    together, first_set, left = threading.Barrier(2), threading.Event(), threading.Event()
    ask, change = torch.get_num_threads, torch.set_num_threads

    def slow_ask() -> int:
        with contextlib.suppress(threading.BrokenBarrierError):
            if together.wait(0.2):  # the second waits until the first has set torch to one thread
                first_set.wait(5)
        return ask()

    def slow_change(number: int) -> None:
        change(number)
        first_set.set()

    def enter(last: bool) -> None:
        with module.small_steps():
            seen.append(torch.get_num_threads())
            if last:
                left.wait(0.5)
        left.set()

    seen: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", slow_ask)
    monkeypatch.setattr(torch, "set_num_threads", slow_change)
    try:
        workers = [threading.Thread(target=enter, args=(last,)) for last in (True, False)]
        [w.start() for w in workers]
        [w.join(20) for w in workers]
        monkeypatch.undo()
        fresh: list[int] = []  # a new thread gets what torch was last set to
        late = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
        late.start()
        late.join(20)
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 1]
    assert fresh == [3]


def test_the_first_piece_is_done_alone_since_it_may_be_compiled(threads_of, monkeypatch):
    monkeypatch.setattr(module, "_called", set())
    done: list[int] = []
    alone: list[int] = []

    def kernel(low: int, high: int) -> None:
        if not done and threading.current_thread() is threading.main_thread():
            time.sleep(0.05)
            alone.append(len(done))
        done.append(low)

    module.in_chunks(kernel, 50)
    assert alone == [0]
    assert len(done) == len(set(done)) > 1


def test_ctrl_c_does_not_wait_for_a_process_that_does_not_hear_it():
    def pressed(_job: float, _result: object) -> None:
        raise KeyboardInterrupt

    others, began = multiprocessing.active_children(), time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        Processes(2)(time.sleep, (0.0, 100.0), pressed)
    assert time.perf_counter() - began < 50
    left = [child for child in multiprocessing.active_children() if child not in others]
    # the pool waits for them too, in a thread, and who of both is told that one has ended is chance
    until = time.monotonic() + 30
    while any(child.is_alive() for child in left) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(child.is_alive() for child in left), "Python itself would wait for it at its end"


def test_threads_that_share_a_matrix_find_its_field_each_for_itself():
    """Few matrices and many samples: those of one matrix are in several threads."""
    scores = torch.randn(2, 60, 60, generator=torch.Generator().manual_seed(0))

    def draw():
        generator = torch.Generator().manual_seed(1)
        return us.gumbel_sinkhorn(
            scores, samples=8, local=us.LocalTemperature(us.ExcessEntropy(0.1), 0.5), generator=generator
        )

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = draw()
        torch.set_num_threads(2)
        assert all(torch.equal(draw(), alone) for _ in range(200))
    finally:
        torch.set_num_threads(before)
