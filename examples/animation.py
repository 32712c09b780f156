"""The moving picture of the README: the tiles of a photo find their places, the surest first.

Run: python examples/animation.py [FOLDER FOR PICTURES]
"""

import sys
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import unshuffle as us
from unshuffle.readers.pictures import read_picture
from unshuffle.tasks.jigsaw import as_float, cut, reassemble

SIDE, FRAMES, TRAVEL = 32, 34, 0.45  # pixels of a tile, pictures, share of the time that one tile is on its way

grid = us.Grid(height=9, width=12)
with as_file(files("unshuffle") / "data" / "coffee.jpg") as photo:
    tiles, _ = cut(read_picture(photo), grid)
mixed = torch.randperm(grid.n, generator=torch.Generator().manual_seed(1))
tiles = tiles[mixed.numpy()]
found = reassemble(as_float(tiles), grid)
right = float(us.metrics.direct_accuracy(found.order, us.inverse(mixed)))

place = us.inverse(found.order).numpy()  # of each tile
row, column = np.divmod(np.stack((np.arange(grid.n), place)), grid.width)
surest = np.argsort(np.argsort(-found.confidence.numpy(), kind="stable"))
leaves = surest / (grid.n - 1) * (1 - TRAVEL)  # the moment at which each tile sets out
small = [Image.fromarray(tile).resize((SIDE, SIDE), Image.Resampling.LANCZOS) for tile in tiles]


def frame(time: float) -> Image.Image:
    """The table at this moment; tiles on their way lie on top."""
    table = Image.new("RGB", (SIDE * grid.width, SIDE * grid.height), "#1b1b1b")
    way = np.clip((time - leaves) / TRAVEL, 0, 1)
    way = way * way * (3 - 2 * way)  # sets out and arrives slowly
    moving = (way > 0) & (way < 1)
    for k in np.argsort(moving + (way == 0) * 0.5, kind="stable"):
        x, y = ((1 - way[k]) * line[0, k] + way[k] * line[1, k] for line in (column, row))
        table.paste(small[k], (round(float(x) * SIDE), round(float(y) * SIDE)))
    return table


moments = [frame(time) for time in np.linspace(0, 1, FRAMES)]
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
file = folder / "animation.webp"
pauses = [900, *([70] * (FRAMES - 2)), 2200]  # milliseconds
moments[0].save(file, save_all=True, append_images=moments[1:], duration=pauses, loop=0, quality=40, method=4)
together = Image.new("RGB", (3 * moments[0].width, moments[0].height))
for k, moment in enumerate((moments[0], moments[FRAMES // 2], moments[-1])):
    together.paste(moment, (k * moment.width, 0))
together.save(folder / "animation.png")
print(f"{grid.n} tiles, {right:.0%} in place; {FRAMES} pictures in {file}, {file.stat().st_size / 1e3:.0f} kB")
