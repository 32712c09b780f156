"""Shreds as people have them: strips of two pages in one bag, a quarter of them upside down, one missing; and a page cut both ways.

Run: python examples/shredded_kinds.py [FOLDER FOR PICTURES]
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unshuffle.structure.layouts import Grid
from unshuffle.tasks.strips import find_paper, paste, reassemble_pages, reassemble_shreds
from unshuffle.tasks.strips.shreds import paste_shreds

TEXT = "the order of things is hidden in their edges and a page knows where it was cut because ink runs on"
HEIGHT, WIDTH, COUNT, MARGIN = 560, 480, 9, 10
random = np.random.default_rng(5)


def page(size, indent, words=9):
    """Paragraphs; every page has its own lines."""
    sheet = Image.new("L", (WIDTH, HEIGHT), 244)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=size)
    for y in range(24 + indent, HEIGHT - 24, round(1.45 * size)):
        draw.text((22, y), " ".join(random.choice(TEXT.split(), words)), fill=40, font=font)
    return np.asarray(sheet, float)


def strips(sheet):
    """On a black lid; a cut is nearly straight and a little rough, and both of its sides have the same shape."""
    rough = [np.convolve(random.normal(0, 1.5, HEIGHT + 24), np.ones(25) / 5, "valid") for _ in range(COUNT - 1)]
    cuts = [
        np.full(HEIGHT, -1.0),
        *(k * WIDTH / COUNT + r for k, r in enumerate(rough, 1)),
        np.full(HEIGHT, WIDTH + 1.0),
    ]
    x, wide = np.arange(-MARGIN, WIDTH + MARGIN), np.pad(sheet, ((0, 0), (MARGIN, MARGIN)), mode="edge")
    for left, right in pairwise(cuts):
        inside = (x + 1 - left[:, None]).clip(0, 1) * (right[:, None] - x).clip(0, 1)
        columns = slice(max(int(left.min()), 0), int(np.ceil(right.max())) + 2 * MARGIN)
        yield Image.fromarray((wide * inside)[:, columns].astype(np.uint8))


def side_by_side(pictures, across):
    """As many in a row as are told, on white."""
    rows = [pictures[k : k + across] for k in range(0, len(pictures), across)]
    size = max(sum(p.width + 4 for p in row) for row in rows), sum(max(p.height for p in row) + 4 for row in rows)
    sheet, y = Image.new("RGB", size, "white"), 0
    for row in rows:
        for k, picture in enumerate(row):
            sheet.paste(picture, (sum(p.width + 4 for p in row[:k]), y))
        y += max(p.height for p in row) + 4
    return sheet


bag = [strip for sheet in (page(17, 0), page(15, 7)) for strip in strips(sheet)]
kept = [k for k in random.permutation(len(bag)) if k != 4]  # one has been lost
scans = [bag[k].rotate(180 * (place % 4 == 0)) for place, k in enumerate(kept)]
found = find_paper([(f"strip {place}", scan) for place, scan in enumerate(scans)])
pages = reassemble_pages(found, turned=True, missing=True)
gaps = [[place for place, chance in enumerate(one.chances.tolist()) if chance < 0.5] for one in pages]
whole = [paste(found, one.order.tolist(), one.turned, gap) for one, gap in zip(pages, gaps, strict=True)]
print(f"{len(scans)} strips: {len(pages)} pages; true numbers {[[int(kept[k]) for k in one.order] for one in pages]}")

grid = Grid(3, 12)
cells = [cell for band in np.array_split(page(17, 0, words=16), 3, axis=0) for cell in np.array_split(band, 12, axis=1)]
mixed = random.permutation(grid.n)
shreds = [Image.fromarray(cells[k].astype(np.uint8)) for k in mixed]
cut = find_paper([(f"shred {place}", shred) for place, shred in enumerate(shreds)])
solution, _ = reassemble_shreds(cut, grid)
print(f"{grid.n} shreds; in place: {int((mixed[solution.order.numpy()] == np.arange(grid.n)).sum())}")

last = paste_shreds(cut, solution.order.tolist(), grid)
rows = [side_by_side([side_by_side(scans, 17), *whole], 3), side_by_side([side_by_side(shreds, 18), last], 2)]
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
side_by_side(rows, 1).reduce(2).save(folder / "shredded_kinds.png")
