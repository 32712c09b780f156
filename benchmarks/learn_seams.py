"""The network that compares worn edges, learned from a folder of photos.

    python benchmarks/learn_seams.py PHOTOS [--steps 4200] [--out src/unshuffle/data/seams.npz]

Each step cuts a crop of one photo, scaled, recoloured and compressed at random, into up to 12x9 tiles less 1 to 3 pixels at each edge. For every
true seam the network tells the true partner from those that are likeliest by hand-made costs and from a few others (cross-entropy, from both
sides). Every ninth photo is held out: on those it is printed how often the true partner is best, by the network and, in brackets, by two of these costs. A run that
was interrupted goes on from the checkpoint beside the weights. What the shipped weights saw: src/unshuffle/data/LICENSE.seams.txt.
"""

from __future__ import annotations

import argparse
import io
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from unshuffle.files import write_atomic
from unshuffle.networks.facing import GAPS, Facing
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.gaps import across
from unshuffle.tasks.jigsaw import as_float, by_median, cut, extrapolation

SIZE, SIZES = 28, (18, 41)  # of most tiles before they are worn; from which to below which the others are
USUAL = 0.7  # share of the usual size
SHARES = (0.37, 0.43, 0.20)  # of gaps of 1, 2, 3 pixels
LIKELY, OTHERS = 9, 4  # partners of each side that are compared: the cheapest, and some at random
RATE, WARM, DECAY, KEPT = 2e-3, 100, 1e-3, 0.998
EVERY = 500
Rng = np.random.Generator
Case = tuple[Tensor, Grid, int]


def crop(photo: Image.Image, size: int, rng: Rng) -> tuple[np.ndarray, Grid] | None:
    """A part of the photo, scaled down at random, of 12x9 or 9x12 tiles or of fewer if it is small; compressed before it is cut out."""
    wide, high = photo.size
    grid = Grid(9, 12) if rng.random() < 0.5 else Grid(12, 9)
    if (wide > high) != (grid.width > grid.height) and rng.random() < 0.7:
        grid = Grid(grid.width, grid.height)
    if max(grid.height * size / high, grid.width * size / wide) > 1:
        grid = Grid(min(12, max(3, high // size)), min(12, max(3, wide // size)))
    least = max(grid.height * size / high, grid.width * size / wide)
    if least > 1:
        return None
    scale = math.exp(rng.uniform(math.log(least), math.log(min(1.0, max(least, min(0.8, 3 * least))))))
    h, w = grid.height * size, grid.width * size
    wide_then, high_then = max(w, round(wide * scale)), max(h, round(high * scale))
    x, y = int(rng.integers(0, wide_then - w + 1)), int(rng.integers(0, high_then - h + 1))
    # two blocks of a JPEG more on each side
    left, top, right, bottom = max(0, x - 16), max(0, y - 16), min(wide_then, x + w + 16), min(high_then, y + h + 16)
    box = (left * wide / wide_then, top * high / high_then, right * wide / wide_then, bottom * high / high_then)
    ways = Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BOX, Image.Resampling.BILINEAR
    part = photo.resize((right - left, bottom - top), ways[rng.integers(4)], box=box)
    pixels = compressed(recoloured(np.asarray(part, np.float32), rng), rng)
    return pixels[y - top : y - top + h, x - left : x - left + w], grid


def recoloured(pixels: np.ndarray, rng: Rng) -> np.ndarray:
    """Gamma, saturation, contrast, tint, sometimes other channels, grey, or noise."""
    if rng.random() < 0.6:
        pixels = 255 * (pixels / 255) ** np.exp(rng.normal(0, 0.2))
        grey = pixels.mean(2, keepdims=True)
        pixels = grey + (pixels - grey) * rng.uniform(0.3, 1.4)
        pixels = (pixels - 128) * rng.uniform(0.6, 1.2) + 128 + rng.normal(0, 12) + rng.normal(0, 6, 3)
        if rng.random() < 0.15:
            pixels = pixels[..., rng.permutation(3)]
    if rng.random() < 0.04:
        pixels = np.repeat(pixels.mean(2, keepdims=True), 3, 2)
    if rng.random() < 0.15:
        pixels = pixels + rng.normal(0, rng.uniform(0.5, 4), pixels.shape)
    return pixels.clip(0, 255).round().astype(np.uint8)


def compressed(pixels: np.ndarray, rng: Rng) -> np.ndarray:
    """Mostly by JPEG of some quality."""
    if rng.random() >= 0.8:
        return pixels
    file = io.BytesIO()
    quality, subsampling = int(rng.integers(70, 97)), int(rng.choice([0, 2, 2]))
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=subsampling)
    return np.asarray(Image.open(file))


def puzzle(photo: Image.Image, gap: int, size: int, rng: Rng) -> Case | None:
    """Worn tiles in raster order, mirrored, upside down or on their side at random."""
    found = crop(photo, size, rng)
    if found is None:
        return None
    pixels, grid = found
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    if rng.random() < 0.15:
        pixels = pixels[::-1]
    if rng.random() < 0.1:
        pixels, grid = pixels.transpose(1, 0, 2), Grid(grid.width, grid.height)
    tiles = as_float(cut(np.ascontiguousarray(pixels), grid)[0])
    return tiles[:, gap : size - gap, gap : size - gap], grid, gap


def drawn(photos: list[Image.Image], rng: Rng) -> Case:
    while True:
        photo, gap = photos[rng.integers(len(photos))], int(rng.choice(GAPS, p=SHARES)) + 1
        size = SIZE if rng.random() < USUAL else int(rng.integers(*SIZES))
        if (case := puzzle(photo, gap, size, rng)) is not None:
            return case


def compared(network: Facing, case: Case, rng: Rng, partners: int = LIKELY) -> tuple[Tensor, np.ndarray]:
    """The loss, and how often the true partner is best: by the network, and by two of the costs it weighs."""
    tiles, grid, gap = case
    n, losses, best = len(tiles), [], []
    for way, pairs in zip((tiles, tiles.transpose(1, 2)), grid.relations(), strict=True):
        logs, (a, b) = costs(way, gap).log(), pairs.T
        cost = logs[:2].sum(0).fill_diagonal_(math.inf)
        asked = torch.zeros(n, n, dtype=torch.bool)
        for axis in (1, 0):
            asked.scatter_(axis, cost.topk(min(partners, n - 1), axis, largest=False).indices, True)
        asked.scatter_(1, torch.from_numpy(rng.integers(0, n, (n, OTHERS))), True)
        asked[a, b] = True
        i, k = asked.fill_diagonal_(False).nonzero(as_tuple=True)
        last, first = network.edges(way, gap)
        Z = torch.full((n, n), -1e4).index_put((i, k), network(last.among(i), first.among(k), logs[:, i, k], gap))
        for rows, truth, matrix, dear in ((a, b, Z, cost), (b, a, Z.T, cost.T)):
            losses.append(F.cross_entropy(matrix[rows], truth))
            best.append([(m[rows].argmax(1) == truth).float().mean().item() for m in (matrix, -dear)])
    return torch.stack(losses).mean(), np.mean(best, 0)


def costs(tiles: Tensor, gap: int) -> Tensor:
    """The four of all pairs, in units of their medians."""
    last, before_last, first, second = (tiles[:, :, k].contiguous() for k in (-1, -2, 0, 1))
    ways = zip(across(tiles, gap, silent), across(tiles.flip(2), gap, silent), strict=True)
    found = [extrapolation(before_last, last, first, second), *(onward + backward.T for onward, backward in ways)]
    return torch.stack([by_median(cost, 1).clamp_min(1e-6) for cost in found])


def silent(_: float) -> None: ...


def in_half(module: nn.Module) -> None:
    """Convolutions in half precision while training: twice as fast where the processor has it."""
    forward = module.forward

    def quick(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=module.training):
            return forward(x).float()

    module.forward = quick


def held_out(network: Facing, photos: list[Image.Image]) -> str:
    """With each gap, the share of true partners that are best among all tiles."""
    told = []
    for gap in range(1, GAPS + 1):
        rng = np.random.default_rng(5)
        cases = [case for photo in photos if (case := puzzle(photo, gap, SIZE, rng)) is not None]
        with torch.no_grad():
            best = np.mean([compared(network, case, rng, len(case[0]))[1] for case in cases], 0)
        told.append(f"gap {gap} {best[0]:.3f} ({best[1]:.3f})")
    return ", ".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--steps", type=int, default=4200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("src/unshuffle/data/seams.npz"))
    options = parser.parse_args()
    files = sorted(f for f in options.photos.iterdir() if f.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"))
    photos = [Image.open(file).convert("RGB") for file in files]
    held, learned = photos[3::9], [photo for k, photo in enumerate(photos) if k % 9 != 3]
    torch.manual_seed(options.seed)
    rng, network, first = np.random.default_rng(options.seed), Facing(), 0
    in_half(network.strip)
    in_half(network.along)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    mean = {name: value.clone() for name, value in network.state_dict().items()}  # of the weights over the last steps
    checkpoint = options.out.with_suffix(".checkpoint")
    if checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=False)
        network.load_state_dict(stored["network"])
        optimizer.load_state_dict(stored["optimizer"])
        mean, first, rng.bit_generator.state = stored["mean"], stored["step"], stored["rng"]
    seen, began = [], time.process_time()
    for step in range(first, options.steps):
        rate = RATE * min(1, (step + 1) / WARM) * (0.5 + 0.5 * math.cos(math.pi * step / options.steps)) + RATE / 100
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, best = compared(network, drawn(learned, rng), rng)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        for name, value in network.state_dict().items():
            mean[name].lerp_(value, 1 - min(KEPT, (step + 1) / (step + 10)))
        seen.append([loss.item(), *best])
        if (step + 1) % 50 == 0:
            told = np.mean(seen[-50:], 0)
            print(f"{step + 1:>6}  {time.process_time() - began:.0f} s  loss {told[0]:.3f}  best {told[1]:.3f} ({told[2]:.3f})", flush=True)  # fmt: skip
        if (step + 1) % EVERY == 0 or step + 1 == options.steps:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "mean": mean, "step": step + 1, "rng": rng.bit_generator.state}  # fmt: skip
            torch.save(state, whole := io.BytesIO())
            write_atomic(checkpoint, whole.getvalue())
            keep(mean, options.out)
            judge = Facing()
            judge.load_state_dict(mean)
            print("        held out:", held_out(judge, held), flush=True)
    checkpoint.unlink(missing_ok=True)


def keep(weights: dict[str, Tensor], out: Path) -> None:
    """In half precision."""
    file = io.BytesIO()
    halves: dict[str, Any] = {name: value.numpy().astype(np.float16) for name, value in weights.items()}
    np.savez_compressed(file, **halves)
    write_atomic(out, file.getvalue())


if __name__ == "__main__":
    main()
