"""Slices of a volume or frames of a film: registered by small shifts, compared, and put in an order in which neighbours are alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from scipy.ndimage import gaussian_filter, zoom
from scipy.sparse import csr_array
from torch import Tensor

from ..errors import BadInput
from ..readers.arrays import read_arrays
from ..readers.pictures import pictures_in, read_pages, read_pictures
from ..solve import solve
from ..solve.near.space import nearest_points
from ..solve.solution import Solution
from ..structure.layouts import Path as Line
from ..watch import Step, Watch

SIDE = 96  # pixels of the longer side while slices are compared
SHIFT = 0.06  # of the longer side: how far two slices may be apart and still be brought together
SHADE = 0.2  # of the longer side: slower changes of brightness are taken for the light's
IN_PLACE = 0.1
"""Weight of how alike two slices are without any shift: of a film in which something moves, the shift itself tells the order."""
REACH = 1
"""Places up to which pairs count. Slices further apart are soon equally unlike: with 3, the end of one of six made-up volumes was turned."""
ALL_PAIRS = 600  # slices of which each is compared with each; of more, each with its nearest
NEAREST, TINY = 24, 24  # others that each is compared with, chosen among pictures of so many pixels a side
TOGETHER = 256  # pairs compared at a time


@dataclass(frozen=True, eq=False)
class Stack:
    """Slices as they came, by name, and small grey versions of one size to compare."""

    names: list[str]
    pictures: list[np.ndarray]
    """(height, width, channels), as `read_picture` makes them."""
    grey: Float[np.ndarray, "n h w"]
    scale: float
    """Pixels of the grey versions per pixel of the slices."""


@dataclass(frozen=True, eq=False)
class Ordered:
    order: Int[np.ndarray, "n"]
    solution: Solution
    alike: Float[np.ndarray, "n-1"]
    """Correlation of each slice with the next, once brought together: 1 is the same."""
    shifts: Float[np.ndarray, "n 2"]
    """Down and right, in pixels of the slices: what brings each slice of the order onto the one before it; 0 for the first."""
    stack: Stack


def read_stack(path: Path) -> Stack:
    """A folder of pictures, a TIFF or GIF of several pages, or an array (slices, height, width[, channels]) as .npy or .npz."""
    path = Path(path)
    if path.is_dir():
        files = pictures_in(path)
        names, pictures = [file.name for file in files], read_pictures(files)
    elif path.suffix.lower() in (".npy", ".npz"):
        pictures = _pages_of_array(path)
        names = [str(k + 1) for k in range(len(pictures))]
    else:
        pictures = read_pages(path)
        names = [str(k + 1) for k in range(len(pictures))]
    if len(pictures) < 3:
        raise BadInput(f"{path} holds {len(pictures)} slices; an order needs at least three.")
    largest = max(max(picture.shape[:2]) for picture in pictures)
    scale = min(1.0, SIDE / largest)
    return Stack(names, pictures, _of_one_size([_grey(picture, scale) for picture in pictures]), scale)


def _pages_of_array(path: Path) -> list[np.ndarray]:
    arrays = read_arrays(path)
    try:
        volume = np.asarray(arrays if isinstance(arrays, np.ndarray) else next(iter(arrays.values())), dtype=np.float64)
    except (ValueError, TypeError, StopIteration):
        raise BadInput(f"{path.name} holds no array of numbers.") from None
    if (volume.ndim == 4 and volume.shape[3] > 4) or volume.ndim not in (3, 4) or not volume.size:
        raise BadInput(
            f"{path.name} must be slices (n, height, width), with up to 4 channels, not of shape {volume.shape}."
        )
    if not np.isfinite(volume).all():
        raise BadInput(f"{path.name} has numbers that are NaN or infinite.")
    low, high = float(volume.min()), float(volume.max())
    bytes_ = ((volume - low) / max(high - low, 1e-300) * 255).round().astype(np.uint8)
    return list(bytes_ if volume.ndim == 4 else bytes_[..., None])


def _grey(picture: np.ndarray, scale: float) -> Float[np.ndarray, "h w"]:
    """Mean of the colours from 0 to 1, made smaller by averaging."""
    colours = picture[..., :-1] if picture.shape[2] in (2, 4) else picture
    grey = colours.mean(2, dtype=np.float32) / np.iinfo(picture.dtype).max
    size = (max(1, round(grey.shape[1] * scale)), max(1, round(grey.shape[0] * scale)))
    return np.asarray(Image.fromarray(grey).resize(size, Image.Resampling.BOX))


def _of_one_size(pictures: list[np.ndarray]) -> Float[np.ndarray, "n h w"]:
    """In the middle of a ground of their own: the median of their rims."""
    height, width = (max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    stack = np.empty((len(pictures), height, width), np.float32)
    for page, picture in zip(stack, pictures, strict=True):
        rim = np.concatenate((picture[0], picture[-1], picture[:, 0], picture[:, -1]))
        page[:] = np.median(rim)
        top, left = (height - picture.shape[0]) // 2, (width - picture.shape[1]) // 2
        page[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return stack


class _Compared:
    """Slices that can be brought together: spectra of their contrasts."""

    def __init__(self, grey: Float[np.ndarray, "n h w"]) -> None:
        height, width = grey.shape[1:]
        side = max(height, width)
        contrast = np.stack([page - gaussian_filter(page, SHADE * side, mode="nearest") for page in grey])
        rim = [
            np.minimum(1, np.minimum(np.arange(k) + 1, k - np.arange(k)) / max(1, SHIFT * side))
            for k in (height, width)
        ]
        contrast = contrast * np.outer(*rim)
        contrast -= contrast.mean((1, 2), keepdims=True)
        contrast /= np.maximum(np.sqrt(np.square(contrast).sum((1, 2), keepdims=True)), 1e-12)
        self.most = max(1, math.ceil(SHIFT * side))
        self.size = (
            height + self.most,
            width + self.most,
        )  # so that what leaves on one side does not come in on the other
        self.spectra = torch.fft.rfft2(torch.from_numpy(contrast.astype(np.float32)), s=self.size)

    def __call__(self, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of pairs: correlation at the best small shift, correlation in place, and the shift (down, right) of the second."""
        surface = torch.fft.irfft2(self.spectra[one] * self.spectra[other].conj(), s=self.size)
        steps = torch.arange(-self.most, self.most + 1)
        near = surface[:, steps % self.size[0]][:, :, steps % self.size[1]].flatten(1)
        best, at = near.max(1)
        shift = torch.stack((at // len(steps), at % len(steps)), dim=1) - self.most
        return best, surface[:, 0, 0], shift


def order_slices(
    stack: Stack,
    *,
    reach: int = REACH,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> Ordered:
    """Compare, order as a `Path`, and bring neighbours together."""
    n = len(stack.names)
    compared = _Compared(stack.grey)
    pairs = torch.combinations(torch.arange(n)) if n <= ALL_PAIRS else _near_pairs(stack.grey)
    layout = Line(n, reach=min(reach, max(1, (n - 1) // 3)) if n <= ALL_PAIRS else 1)
    with Watch(time_limit, callback) as watch:
        cost = _costs(compared, pairs, watch)
        left = None if watch.time_limit is None else max(0.0, watch.time_limit - watch.seconds)
        left = 0.0 if watch.stopped else left
        first, second = pairs.T.numpy()
        known: Tensor | csr_array = torch.zeros(n, n, dtype=torch.float64)
        if n <= ALL_PAIRS:
            known[first, second] = known[second, first] = cost.double()
        else:
            known = csr_array((cost.double().numpy(), (first, second)), shape=(n, n))
        found = solve(layout, cost=known, seed=seed, time_limit=left, callback=callback)
    if watch.stopped:
        found = replace(found, status=watch.status)
    order = found.best_order.numpy()
    alike, _, steps = compared(found.best_order[:-1], found.best_order[1:])
    shifts = np.concatenate((np.zeros((1, 2)), steps.numpy())) / stack.scale
    return Ordered(order, found, alike.numpy().astype(float), shifts, stack)


def _costs(compared: _Compared, pairs: Int[Tensor, "pairs 2"], watch: Watch) -> Float[Tensor, "pairs"]:
    """What the pairs cost side by side; as much as the most unlike ones, if the watch says to stop before they are compared."""
    cost = torch.full((len(pairs),), 2.0)
    parts = torch.arange(len(pairs)).split(TOGETHER)
    for k, some in enumerate(parts):
        if not watch.show(Step(watch.seconds, "comparing the slices", 0.0, math.nan, math.nan, k / len(parts))):
            break
        best, in_place, _ = compared(*pairs[some].T)
        cost[some] = (1 - best) + IN_PLACE * (1 - in_place)
    return cost


def _near_pairs(grey: Float[np.ndarray, "n h w"]) -> Int[Tensor, "pairs 2"]:
    """Pairs of slices that are alike when made very small, and one chain of all so that they hang together."""
    n = len(grey)
    finer = (1, min(1, TINY / grey.shape[1]), min(1, TINY / grey.shape[2]))
    small = np.asarray(zoom(grey, finer, order=1)).reshape(n, -1)
    near = nearest_points(small.astype(np.float64), NEAREST)
    middle = np.argsort(small @ np.linalg.svd(small - small.mean(0), full_matrices=False)[2][0], kind="stable")
    one = np.r_[np.repeat(np.arange(n), near.shape[1]), middle[:-1]]
    other = np.r_[near.ravel(), middle[1:]]
    keys = np.unique(np.minimum(one, other) * n + np.maximum(one, other))
    return torch.from_numpy(np.stack(np.divmod(keys, n), axis=1))
