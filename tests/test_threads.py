"""Work in pieces: every piece once, errors come back, and a forked child works too."""

from __future__ import annotations

import contextlib
import multiprocessing

import pytest
import torch

from unshuffle.compute import threads as module


@pytest.fixture(params=["of torch", "of Python"])
def threads(request, monkeypatch):
    if request.param == "of Python":
        monkeypatch.setattr(module, "_team", None)
    elif module._team is None:
        pytest.skip("torch has no OpenMP of GNU's kind here")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_every_number_is_done_once(threads):
    for count in (1, 2, 7, 1000):
        done = torch.zeros(count)

        def kernel(low: int, high: int, done=done) -> None:
            done[low:high] += 1

        module.in_chunks(kernel, count)
        assert bool((done == 1).all())


def test_an_error_in_a_piece_is_raised_here(threads):
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
def test_a_forked_child_has_threads_of_its_own(threads):
    module.in_chunks(lambda low, high: None, 50)  # the parent's threads are there
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(answers,))
    child.start()
    assert answers.get(timeout=30)
    child.join(30)


def test_small_steps_leave_torch_one_thread_and_give_it_back():
    before = torch.get_num_threads()
    done = []
    with contextlib.suppress(ValueError), module.small_steps():
        assert torch.get_num_threads() == 1
        module.in_chunks(lambda low, high: done.extend(range(low, high)), 100)
        with module.small_steps():  # a solve within a solve
            pass
        assert torch.get_num_threads() == 1
        raise ValueError("stop")
    assert sorted(done) == list(range(100))
    assert torch.get_num_threads() == before
