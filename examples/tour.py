"""A round trip through points, with and without a local search afterwards.

Run: python examples/tour.py [FOLDER FOR PICTURES]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import unshuffle as us

generator = torch.Generator().manual_seed(4)
centres = torch.rand(6, 2, generator=generator)
points = (centres.repeat(15, 1) + 0.07 * torch.randn(90, 2, generator=generator)).double()
found = us.solve(us.Cycle(90), cost=torch.cdist(points, points), polish=True)
print(f"90 points in {found.seconds:.1f} s: length {found.energy:.3f}, after local search {found.best_energy:.3f}")

figure = Figure(figsize=(8.5, 4.2), layout="constrained")
tours = {
    f"annealed: {found.energy:.3f}": found.order,
    f"and polished: {found.best_energy:.3f}": found.best_order,
}
for axes, (name, order) in zip(figure.subplots(1, 2), tours.items(), strict=True):
    ring = points[torch.cat((order, order[:1]))]
    axes.plot(*ring.T.numpy(), color="#31688e", linewidth=1.2)
    # how sure a place is, given the others: pale points could as well be visited elsewhere
    dots = axes.scatter(
        *points.T.numpy(), c=found.confidence.numpy(), cmap="YlGn", vmin=0, vmax=1, edgecolors="#333333", zorder=2
    )
    axes.set_title(name)
    axes.set_aspect("equal")
figure.colorbar(dots, ax=figure.axes, shrink=0.8, label="confidence")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "tour.png", dpi=100, bbox_inches="tight")
