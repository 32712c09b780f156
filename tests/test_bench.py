"""What `unshuffle bench` measures on: scores of a short training, the same every time and as sharp as asked."""

from __future__ import annotations

import torch

import unshuffle as us
from unshuffle.bench import trained


def test_trained_scores_are_seeded_and_sharp():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = trained.scores(3, 12, 10.0, 4)
    assert torch.equal(torch.get_rng_state(), before)
    trained.network.cache_clear()
    assert torch.equal(trained.scores(3, 12, 10.0, 4), first)
    sharp = us.entropy(us.sinkhorn(first)).mean() <= trained.ENTROPY
    assert sharp or first.abs().max() >= 2000
    assert not first.requires_grad
