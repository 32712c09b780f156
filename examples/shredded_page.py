"""A shredded page: render a page of text, cut it into rough strips, shuffle them, put the page back together.

Run: python examples/shredded_page.py [FOLDER FOR PICTURES]
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unshuffle.tasks.strips import find_paper, paste, reassemble_page

TEXT = "the order of things is hidden in their edges and a page knows where it was cut because ink runs on"
HEIGHT, WIDTH, COUNT = 800, 600, 12
random = np.random.default_rng(3)

page = Image.new("L", (WIDTH, HEIGHT), 244)
draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=17)
for line in range(34):
    draw.text((30, 25 + 22 * line), " ".join(random.choice(TEXT.split(), 11)), fill=40, font=font)

# a cut is nearly straight and a little rough; both of its sides have the same shape
rows = np.arange(HEIGHT)
cuts = [np.full(HEIGHT, -1.0)]
for k in range(1, COUNT):
    rough = np.convolve(random.normal(0, 1.5, HEIGHT + 24), np.ones(25) / 5, "valid")
    cuts.append(k * WIDTH / COUNT + random.uniform(-3, 3) * (rows / HEIGHT - 0.5) + rough)
cuts.append(np.full(HEIGHT, WIDTH + 1.0))

pixels, margin = np.asarray(page, float), 12
x = np.arange(-margin, WIDTH + margin)
padded = np.pad(pixels, ((0, 0), (margin, margin)), mode="edge")
strips = []
for k, (left, right) in enumerate(pairwise(cuts)):
    inside = (x + 1 - left[:, None]).clip(0, 1) * (right[:, None] - x).clip(0, 1)
    scan = np.where(inside > 0, padded * inside, 0)  # on a black scanner lid
    first, last = int(left.min()), int(np.ceil(right.max()))
    strips.append((k, Image.fromarray(scan[:, max(first, 0) : last + 2 * margin].astype(np.uint8))))

mixed = [strips[k] for k in random.permutation(COUNT)]
found = find_paper([(f"strip {place}", picture) for place, (_, picture) in enumerate(mixed)])
solution = reassemble_page(found).solution
truth = [mixed[k][0] for k in solution.order.tolist()]
print(f"{COUNT} strips in {solution.seconds:.1f} s; true numbers in the order found: {truth}")

together = paste(found, solution.order.tolist())
heap = Image.new("RGB", (sum(p.width + 4 for _, p in mixed), HEIGHT), "white")
at = 0
for _, picture in mixed:
    heap.paste(picture, (at, 0))
    at += picture.width + 4
both = Image.new("RGB", (heap.width + together.width + 40, HEIGHT), "white")
both.paste(heap, (0, 0))
both.paste(together, (heap.width + 40, 0))
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
folder.mkdir(parents=True, exist_ok=True)
both.save(folder / "shredded_page.png")
