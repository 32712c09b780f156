"""A jigsaw in Python: cut a photo into tiles, shuffle them, put them back.

Run: python examples/jigsaw.py [FOLDER FOR PICTURES]
"""

import sys
from importlib.resources import as_file, files
from pathlib import Path

import torch
from matplotlib.figure import Figure

import unshuffle as us
from unshuffle.readers.pictures import read_picture
from unshuffle.tasks.jigsaw import as_float, cut, join, reassemble

with as_file(files("unshuffle") / "data" / "nagasaki-boats.jpg") as photo:
    pixels = read_picture(photo)
grid = us.Grid(height=8, width=10)
tiles, _ = cut(pixels, grid)  # (80, height, width, 3)
mixed = torch.randperm(grid.n, generator=torch.Generator().manual_seed(0))
shuffled = tiles[mixed.numpy()]

found = reassemble(as_float(shuffled), grid)
right = us.metrics.direct_accuracy(found.order, us.inverse(mixed))
print(
    f"{grid.n} tiles in {found.seconds:.1f} s: {float(right):.0%} in place, least confidence {found.confidence.min():.2f}"
)

figure = Figure(figsize=(9, 3.8), layout="constrained")
orders = {"shuffled": torch.arange(grid.n), "put together": found.order}
for axes, (name, order) in zip(figure.subplots(1, 2), orders.items(), strict=True):
    axes.imshow(join(shuffled, order, grid))
    axes.set_title(name)
    axes.set_axis_off()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "jigsaw.png", dpi=100, bbox_inches="tight")
