"""Three steps of training with adaptive temperature and noise; run alone or by torchrun (see test_learn.py)."""

import os
import sys

import torch

import unshuffle as us
from unshuffle.networks import ItemScorer

torch.manual_seed(0)
network = ItemScorer(8, hidden=16)
items = torch.rand(10, 8, 1, generator=torch.Generator().manual_seed(1))  # 5 and 5 lists
relax = us.GumbelSinkhorn(us.Constant(1.0), us.LocalTemperature())
us.fit(network, [items] * 3, us.losses.monotone, relax, epochs=1, samples=3)
if os.environ.get("RANK", "0") == "0":
    weights = torch.cat([p.detach().flatten() for p in network.parameters()])
    gradient = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
    torch.save({"network": weights, "gradient": gradient}, sys.argv[1] + ".pt")
