"""The picture of the README: a photo, a tour and a table, each as it came and as it was put in order.

Run: python examples/overview.py [FOLDER FOR PICTURES]
"""

import io
import sys
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

import unshuffle as us
from unshuffle.readers.pictures import read_picture
from unshuffle.tasks.jigsaw import as_float, cut, join, reassemble

generator = torch.Generator().manual_seed(1)
as_it_came = torch.randperm(108, generator=generator)

# 12 x 9 tiles of a photo
with as_file(files("unshuffle") / "data" / "coffee.jpg") as photo:
    tiles, _ = cut(read_picture(photo), us.Grid(9, 12))
tiles = tiles[as_it_came.numpy()]
photo = reassemble(as_float(tiles), us.Grid(9, 12))

# a round trip through 100 points
points = torch.rand(100, 2, generator=generator, dtype=torch.float64)
tour = us.solve(us.Cycle(100), cost=torch.cdist(points, points))

# 60 finds whose likeness falls off with the years between them
random = np.random.default_rng(1)
year = random.random(60)
likeness = np.exp(-((year[:, None] - year) ** 2) / 0.03) + 0.15 * random.random((60, 60))
unlike = 1.2 - (likeness + likeness.T) / 2
np.fill_diagonal(unlike, 0)
rows = us.Seriator(metric="precomputed").fit(unlike)
tau = float(us.kendall_tau(torch.from_numpy(year[rows.order_]), torch.arange(60)))
right = float(us.metrics.direct_accuracy(photo.order, us.inverse(as_it_came)))
print(f"photo: {right:.0%} of the tiles in place; tour: length {tour.energy:.2f}; table: |Kendall tau| {abs(tau):.2f}")

figure = Figure(figsize=(9.6, 5.4), layout="constrained")
came = (torch.arange(108), torch.arange(100), np.arange(60))
found = (photo.order, tour.order, rows.order_)
grid = figure.subplots(2, 3, width_ratios=(1.33, 1, 1))
for line, (panels, (tile, city, row)) in enumerate(zip(grid, (came, found), strict=True)):
    panels[0].imshow(join(tiles, tile, us.Grid(9, 12)))
    panels[1].plot(*points[[*city, city[0]]].T, color="#31688e", linewidth=1, marker=".", markerfacecolor="#222222")
    panels[1].set_aspect("equal")
    panels[2].imshow(unlike[row][:, row], cmap="magma_r")
    for axes, what in zip(
        panels, ("108 tiles of a photo", "100 places to visit", "60 finds, by likeness"), strict=True
    ):
        axes.set_title(f"{what}, {'in order' if line else 'as they came'}", fontsize=10)
        axes.set(xticks=[], yticks=[])
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(drawn := io.BytesIO(), dpi=100)
Image.open(drawn).convert("RGB").quantize(200).save(folder / "overview.png", optimize=True)
