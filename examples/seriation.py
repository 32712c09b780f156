"""Seriate an excavation: graves hold types of pottery that come into fashion and go out again; which grave is older?

Run: python examples/seriation.py [FOLDER FOR PICTURES]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import unshuffle as us

random = np.random.default_rng(2)
age = np.sort(random.random(35))
fashion = np.linspace(-0.1, 1.1, 18)  # when each of 18 types was most in use
counts = random.poisson(8 * np.exp(-(((age[:, None] - fashion) / 0.12) ** 2) / 2))
mixed = random.permutation(35)
table = counts[mixed]

# shares of each grave, compared by city block: what archaeologists call Brainerd-Robinson
shares = table / table.sum(1, keepdims=True)
model = us.Seriator(metric="cityblock").fit(shares)
tau = float(us.kendall_tau(torch.from_numpy(mixed[model.order_]), torch.arange(35)))
print(f"35 graves, {(model.confidence_ > 0.9).sum()} placed with confidence above 0.9; |Kendall tau| {abs(tau):.2f}")

figure = Figure(figsize=(8.5, 4.6), layout="constrained")
panels = {"as excavated": table, "seriated": table[model.order_]}
for axes, (name, values) in zip(figure.subplots(1, 2), panels.items(), strict=True):
    axes.imshow(values, cmap="Greys", aspect="auto")
    axes.set(title=name, xlabel="type of pottery", ylabel="grave", xticks=range(0, 18, 5))
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "seriation.png", dpi=100, bbox_inches="tight")
