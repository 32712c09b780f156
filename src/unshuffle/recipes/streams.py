"""Pictures that stay on disk: a collection too large for memory as puzzles, batch by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..learn.batches import mixed
from ..readers.pictures import read_picture
from .puzzles import Pictures, Puzzles, scaled

READERS, AHEAD = 4, 2  # threads that read, and batches read while one is computed with: no more is ever in memory


@dataclass(frozen=True)
class OnDisk:
    """Pictures by their files; a slice of it is read, and scaled to `pixels` x `pixels`."""

    files: tuple[Path, ...]
    pixels: int

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, chosen: slice) -> Pictures:
        return stacked([self.read(k) for k in range(len(self))[chosen]])

    def read(self, k: int) -> np.ndarray:
        return scaled(read_picture(self.files[k]), self.pixels, self.pixels)


@dataclass(frozen=True)
class Streamed:
    """Puzzles of pictures on disk, shuffled anew every epoch; or every one of them in turn, always the same.

    `make` cuts the pictures of a batch, by a seed.
    """

    pictures: OnDisk
    make: Callable[[Pictures, int], Puzzles]
    batch: int
    seed: int
    in_turn: bool = False

    def __len__(self) -> int:
        return -(-len(self.pictures) // self.batch) if self.in_turn else max(len(self.pictures) // self.batch, 1)

    def __call__(self, epoch: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        return ((given.items, given.allowed) for given in self.puzzles(epoch))

    def puzzles(self, epoch: int = 0) -> Iterator[Puzzles]:
        epoch = 0 if self.in_turn else epoch
        order = torch.arange(len(self.pictures))
        if not self.in_turn:
            order = torch.randperm(len(order), generator=torch.Generator().manual_seed(mixed(self.seed, epoch)))
        parts = order.split(self.batch)[: len(self)]
        for step, pictures in enumerate(self._read(parts)):
            yield self.make(pictures, mixed(self.seed, epoch, step))

    def _read(self, parts: tuple[Tensor, ...]) -> Iterator[Pictures]:
        """The pictures of each part, those of the next ones being read meanwhile."""
        coming = deque()
        with ThreadPoolExecutor(READERS) as readers:
            for part in parts:
                coming.append([readers.submit(self.pictures.read, k) for k in part.tolist()])
                if len(coming) > AHEAD:
                    yield stacked([picture.result() for picture in coming.popleft()])
            while coming:
                yield stacked([picture.result() for picture in coming.popleft()])


def stacked(pictures: list[np.ndarray]) -> Pictures:
    return torch.from_numpy(np.stack(pictures))
