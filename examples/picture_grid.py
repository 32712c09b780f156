"""Pictures on a grid by similarity: crops of two photos, arranged so that neighbours look alike.

Run: python examples/picture_grid.py [FOLDER FOR PICTURES]
"""

import sys
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import unshuffle as us
from unshuffle.readers.pictures import read_picture

SIDE, CROP = 8, 48
random = np.random.default_rng(6)
crops = []
for name in ("french-alpine-landscape.jpg", "nagasaki-boats.jpg"):
    with as_file(files("unshuffle") / "data" / name) as photo:
        pixels = read_picture(photo)
    for _ in range(SIDE * SIDE // 2):
        top, left = (random.integers(0, size - CROP) for size in pixels.shape[:2])
        crops.append(pixels[top : top + CROP, left : left + CROP])
pictures = np.stack(crops)

# what makes pictures alike is ours to say: here the colours of their four quarters
quarters = pictures.reshape(len(pictures), 2, CROP // 2, 2, CROP // 2, 3).mean((2, 4)).reshape(len(pictures), -1)
unlike = torch.cdist(*[torch.from_numpy(quarters)] * 2)
# cells of the grid pull the more at each other the nearer they are
cell = torch.stack(torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij"), -1).reshape(-1, 2).double()
pull = torch.exp(-(torch.cdist(cell, cell) ** 2) / 4).fill_diagonal_(0)
found = us.solve(us.Graph(pull), cost=unlike)
start = us.Graph(pull).energy(torch.arange(SIDE * SIDE), unlike)
print(
    f"{SIDE * SIDE} pictures in {found.seconds:.1f} s: energy {float(start):.0f} as they came, {found.energy:.0f} arranged"
)

figure = Figure(figsize=(9, 4.7), layout="constrained")
for axes, (name, order) in zip(
    figure.subplots(1, 2),
    {"as they came": random.permutation(SIDE * SIDE), "arranged": found.order.numpy()}.items(),
    strict=True,
):
    rows = pictures[order].reshape(SIDE, SIDE, CROP, CROP, 3).transpose(0, 2, 1, 3, 4)
    axes.imshow(rows.reshape(SIDE * CROP, SIDE * CROP, 3))
    axes.set_title(name)
    axes.set_axis_off()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "picture_grid.png", dpi=100, bbox_inches="tight")
