"""Confidence and abstaining: place only the tiles whose place is sure, leave the others for a person.

Run: python examples/confidence.py [FOLDER FOR PICTURES]
"""

import sys
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import unshuffle as us
from unshuffle.readers.pictures import read_picture
from unshuffle.tasks.jigsaw import as_float, cut, join, reassemble

with as_file(files("unshuffle") / "data" / "nagasaki-boats.jpg") as photo:
    pixels = read_picture(photo).astype(float)
noise = np.random.default_rng(0).normal(0, 6, pixels.shape)  # a bad camera makes it hard
pixels = (pixels + noise).clip(0, 255).astype(np.uint8)
grid = us.Grid(height=12, width=16)
tiles, _ = cut(pixels, grid)
mixed = torch.randperm(grid.n, generator=torch.Generator().manual_seed(1))
shuffled, truth = tiles[mixed.numpy()], us.inverse(mixed)

found = reassemble(as_float(shuffled), grid)
right = found.order == truth
confidence = found.confidence[found.order]  # confidence is per item; here per position
sure = confidence > 0.5
print(f"all {grid.n} tiles: {float(right.float().mean()):.1%} in place")
print(f"the {int(sure.sum())} with confidence above 0.5: {float(right[sure].float().mean()):.1%} in place")

kept = shuffled.copy()
kept[found.order[~sure].numpy()] = 128
figure = Figure(figsize=(11, 3.1), layout="constrained")
panels = {
    "shuffled": (shuffled, torch.arange(grid.n)),
    "all placed": (shuffled, found.order),
    "only the sure": (kept, found.order),
}
for axes, (name, (pieces, order)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
    axes.imshow(join(pieces, order, grid))
    axes.set_title(name)
    axes.set_axis_off()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "confidence.png", dpi=100, bbox_inches="tight")
