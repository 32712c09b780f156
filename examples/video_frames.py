"""The order of video frames: a film of a ball, its frames shuffled, recovered from how alike they are.

Run: python examples/video_frames.py [FOLDER FOR PICTURES]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import unshuffle as us

FRAMES, SIZE = 48, 40
random = np.random.default_rng(5)
time = np.linspace(0, 1, FRAMES)
x, y = 5 + 30 * time, 33 - 26 * np.abs(np.sin(2.5 * np.pi * time))  # a bouncing ball
down, right = np.mgrid[:SIZE, :SIZE]
film = np.exp(-((right - x[:, None, None]) ** 2 + (down - y[:, None, None]) ** 2) / 60)
film += 0.05 * random.normal(size=film.shape)

mixed = random.permutation(FRAMES)
model = us.Seriator().fit(film[mixed].reshape(FRAMES, -1))
found = mixed[model.order_]
if found[0] > found[-1]:  # nothing in the pictures says which way time runs: that one bit is ours to give
    found = found[::-1]
wrong = int((found != np.arange(FRAMES)).sum())
print(f"{FRAMES} frames: {wrong} out of place")

figure = Figure(figsize=(9, 2.1), layout="constrained")
for row, (name, order) in enumerate({"shuffled": mixed, "in order": found}.items()):
    for column, frame in enumerate(order[::4]):
        axes = figure.add_subplot(2, 12, 12 * row + column + 1)
        axes.imshow(film[frame], cmap="magma", vmin=0, vmax=1)
        axes.set_title(f"{frame + 1}", fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.axes[12 * row].set_ylabel(name)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "video_frames.png", dpi=100, bbox_inches="tight")
