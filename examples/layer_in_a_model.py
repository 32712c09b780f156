"""A permutation layer in a network: learn to sort numbers, without ever seeing a sorted list.

Run: python examples/layer_in_a_model.py [FOLDER FOR PICTURES]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import unshuffle as us

N, STEPS = 16, 150
generator = torch.Generator().manual_seed(0)


class Sorter(torch.nn.Module):
    """Scores every number against every position."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.ReLU(), torch.nn.Linear(64, N))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:  # (batch, n, 1) -> (batch, items, positions)
        return self.score(numbers)


torch.manual_seed(0)
model = Sorter()
relax = us.GumbelSinkhorn(us.Anneal(0.5, 2.0, epochs=STEPS), local=us.LocalTemperature())
optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
test = torch.rand(1, N, 1, generator=generator)
taken = {}
for step in range(STEPS):
    numbers = torch.rand(32, N, 1, generator=generator)
    P = relax(model(numbers), epoch=step, samples=3, generator=generator)
    loss = us.losses.monotone_at_all_scales(us.reorder(P, numbers)).mean()  # is the reordered list ascending?
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step in (0, STEPS // 5, STEPS - 1):
        with torch.no_grad():
            soft = us.sinkhorn(relax.schedule(step) * model(test))[0]
            taken[step + 1] = soft[test[0, :, 0].argsort()]  # rows by value: the diagonal is right

order = us.assign(model(test))[0]
tau = float(us.kendall_tau(test[0, order, 0], torch.arange(N)))
print(f"loss {loss.item():.4f}; Kendall tau of a new list {tau:.3f}")

figure = Figure(figsize=(9, 3.3), layout="constrained")
for axes, (step, soft) in zip(figure.subplots(1, len(taken)), taken.items(), strict=True):
    axes.imshow(soft.numpy(), cmap="magma", vmin=0)
    axes.set(title=f"after {step} step{'s' if step > 1 else ''}", xlabel="position", ylabel="item, by value")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "layer_in_a_model.png", dpi=100, bbox_inches="tight")
