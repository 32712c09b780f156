"""A loss of my own: any differentiable function of the reordered items can be solved for one instance.

Here: neighbours of a strip of colours should be alike, and it should get lighter from left to right.
Run: python examples/own_loss.py [FOLDER FOR PICTURES]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import unshuffle as us

colours = torch.rand(24, 3, generator=torch.Generator().manual_seed(1))
LIGHT = torch.tensor([0.3, 0.59, 0.11])  # how light red, green and blue look


def alike(reordered: torch.Tensor) -> torch.Tensor:
    return (reordered[1:] - reordered[:-1]).square().sum()


def lighter(reordered: torch.Tensor) -> torch.Tensor:
    return us.losses.monotone_at_all_scales((reordered @ LIGHT).unsqueeze(-1))


def alike_and_lighter(reordered: torch.Tensor) -> torch.Tensor:
    return alike(reordered) + 4 * lighter(reordered)


strips = {"as they came": torch.arange(24)}
for loss in (alike, lighter, alike_and_lighter):
    found = us.solve(loss, items=colours, seed=0)
    strips[loss.__name__.replace("_", " ")] = found.order
    print(f"{loss.__name__}: {float(loss(colours)):.2f} as they came, {found.energy:.2f} in order")

figure = Figure(figsize=(8, 3.6), layout="constrained")
for axes, (name, order) in zip(figure.subplots(len(strips), 1), strips.items(), strict=True):
    axes.imshow(colours[order].unsqueeze(0).numpy(), aspect="auto")
    axes.set_title(name, fontsize=10)
    axes.set_axis_off()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "own_loss.png", dpi=100, bbox_inches="tight")
