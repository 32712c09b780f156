"""Learn jigsaws from a folder of pictures, without being shown how one goes: the paper's protocol, and a stronger one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..learn.batches import Batches, Shuffled, mixed
from ..learn.descent import Cosine, Descent
from ..learn.objective import Loss, OnPermutation
from ..metrics import direct_accuracy, mask_only_tau, neighbour_accuracy, order_tau, perfect_accuracy
from ..operators.permutation import reorder
from ..readers.pictures import read_picture, read_tiles
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..relaxations.protocol import Relaxation
from ..structure.layouts import Grid
from ..structure.losses import Smoothness
from ..structure.seams import SeamMisfit
from ..tasks.jigsaw import cut
from ..temperature.local import LocalTemperature, MeanBeta, MeanTau, Product
from ..temperature.schedules import Anneal, Exponential, LinearInBeta, LinearInTau
from ..temperature.signals import ExcessEntropy
from .draws import HELD_OUT, TEST, TRAINING
from .folders import MOST_HELD_OUT, Split, read_folder
from .puzzles import Pictures, Puzzles, puzzles, scaled
from .scorers import BySeams, ByTile, Tile
from .streams import OnDisk, Streamed
from .temperatures import tempered

PICTURE = 178  # pixels a side, the paper's
# side: anchors, epochs, last beta, share of the epochs in which it is reached, exponentially?, H0, b_max (the paper's table)
PAPER = {
    4: (0, 500, 2.0, 1.0, False, 0.6, 0.35),
    5: (1, 500, 2.0, 1.0, False, 0.7, 0.20),
    6: (6, 600, 1.33, 0.5, True, 0.85, 0.35),
    7: (12, 600, 1.66, 1.0, True, 0.85, 0.35),
}


@dataclass(frozen=True)
class BlendedSeams:
    """Jumps across the seams of the blended tiles: smooth1 with a band of 1, smooth2k with k."""

    band: int = 1
    power: float = 2.0

    def __call__(self, grid: Grid, tile: Tile) -> Loss:
        return OnPermutation(Smoothness(grid, tile, self.band, self.power).blended)


@dataclass(frozen=True)
class PairedSeams:
    """How badly each pair of tiles fits, times how much of both stands side by side."""

    def __call__(self, grid: Grid, tile: Tile) -> Loss:
        return OnPermutation(SeamMisfit(grid, tile))


@dataclass(frozen=True)
class Jigsaw:
    """Puzzles of `side` x `side` tiles, cut from the pictures of the folder `data`."""

    TASK: ClassVar[str] = "jigsaw"

    side: int
    data: str
    most: int | None  # pictures taken from the folder; None: all
    pixels: int  # pictures are scaled to a square of this side, then cropped to a multiple of `side`
    anchors: int  # tiles per picture whose place is given away
    scorer: Callable[[int, Tile], nn.Module]
    relax: Relaxation
    seams: Callable[[Grid, Tile], Loss]
    descent: Descent
    epochs: int
    batch: int
    samples: int
    seed: int
    supervised: bool = (
        False  # items then carry their place in a last feature, which the loss sees and the network does not
    )

    def __post_init__(self) -> None:
        if self.side < 2:
            raise BadInput(f"A jigsaw has at least 2 tiles a side, not {self.side}.")

    @classmethod
    def paper(
        cls,
        data: Path | str,
        side: int = 5,
        temperature: str = "adaptive",
        seed: int = 0,
        epochs: int | None = None,
        band: int = 1,
        product: bool = False,
        pixels: int = PICTURE,
        as_published: bool = False,
        log_n: bool = False,
        supervised: bool = False,
    ) -> Jigsaw:
        """The paper's protocol: every tile by itself, blended seams, Gumbel noise, random anchors enforced by a mask.

        178 is no multiple of 5, 6 or 7: cropped. Fewer epochs stretch the schedule over what is left. "fixed" is beta = 1, the
        better of the paper's two. `band` 1 is smooth1; with more it is smooth2k, by total variation. `log_n`: entropies divided by
        log n, as the paper writes, instead of the log of the places that anchors leave. `as_published`, after the authors'
        sorting code: linear in tau, mean of tau, adapting from the first epoch on, no clipping. `supervised`: by the distance to
        the picture instead of its seams.
        """
        if side not in PAPER:
            raise BadInput(f"The paper has jigsaws of {', '.join(map(str, PAPER))} tiles a side, not {side}.")
        anchors, published, end, share, exponential, threshold, boost = PAPER[side]
        epochs = epochs or published
        shape = Exponential() if exponential else LinearInTau() if as_published else LinearInBeta()
        combine = Product() if product else MeanTau() if as_published else MeanBeta()
        start = 1.0 if temperature == "fixed" else 0.5
        schedule = Anneal(start, end, max(round(share * epochs), 1), shape)
        ways = tempered(temperature, schedule, LocalTemperature(ExcessEntropy(threshold, log_n), boost, combine))
        return cls(
            side=side,
            data=str(data),
            most=None,
            pixels=pixels,
            anchors=anchors,
            scorer=ByTile(),
            relax=GumbelSinkhorn(**ways, iterations=10, adapt_from=0 if as_published else 1),
            seams=BlendedSeams(band, power=2.0 if band == 1 else 1.0),
            descent=Descent(1e-4, clip=None if as_published else 1.0),
            epochs=epochs,
            batch=32,
            samples=5,
            seed=seed,
            supervised=supervised,
        )

    @classmethod
    def strong(
        cls, data: Path | str, side: int = 5, temperature: str = "global", seed: int = 0, epochs: int = 20
    ) -> Jigsaw:
        """What we recommend: no anchors, pair energies of seams, a network whose tiles ask their likely neighbours.

        Chosen on held-out portraits. beta 1 to 4: soft while the scores find their scale, and at the end soft and hard loss
        agree. No noise: seams leave little to explore.
        """
        field = LocalTemperature(ExcessEntropy(0.7), 0.2)
        ways = tempered(temperature, Anneal(1.0, 4.0, epochs, Exponential()), field, noise=0.0)
        return cls(
            side=side,
            data=str(data),
            most=None,
            pixels=PICTURE,
            anchors=0,
            scorer=BySeams(64, layers=side + 1, thumbnail=6),  # news must cross the grid
            relax=GumbelSinkhorn(**ways, iterations=10),
            seams=PairedSeams(),
            descent=Descent(1e-3, 1.0, Cosine()),
            epochs=epochs,
            batch=32,
            samples=1,
            seed=seed,
        )

    @property
    def grid(self) -> Grid:
        return Grid(self.side, self.side)

    @property
    def tile(self) -> tuple[int, int, int]:
        return 3, self.pixels // self.side, self.pixels // self.side

    @property
    def loss(self) -> Loss:
        return OnPermutation(distance_to_picture) if self.supervised else self.seams(self.grid, self.tile)

    def network(self) -> nn.Module:
        network = self.scorer(self.grid.n, self.tile)
        return WithoutPlace(network) if self.supervised else network

    def batches(self) -> Batches:
        pictures = self.pictures().train
        if isinstance(pictures, OnDisk):
            return self._streamed(pictures, TRAINING)
        train = self._puzzles(pictures, mixed(self.seed, TRAINING))
        return Shuffled(train.items, self.batch, self.seed, train.allowed)

    def held_out(self) -> Batches:
        return self._in_turn(self.pictures().held_out, HELD_OUT)

    def test_set(self) -> Batches:
        return self._in_turn(self.pictures().test, TEST)

    def measures(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._measured(network, self._parts(self.pictures().held_out, HELD_OUT))["tau"]}

    def known(self) -> tuple[Tensor, Tensor | None, Tensor]:
        given = self._puzzles(self.pictures().held_out[:MOST_HELD_OUT], mixed(self.seed, HELD_OUT))
        return given.items, given.allowed, given.truth

    def test(self, network: nn.Module) -> dict[str, float]:
        """Means over the test pictures; `gain` is Kendall tau beyond what the anchors alone give."""
        return self._measured(network, self._parts(self.pictures().test, TEST))

    def pictures(self) -> Split:
        return read_folder(Path(self.data), self.pixels, self.most)

    # shuffles and anchors are equal for all methods with one seed

    def _puzzles(self, pictures: Pictures, seed: int) -> Puzzles:
        given = puzzles(pictures, self.side, self.anchors, seed)
        return given.with_place() if self.supervised else given

    def _streamed(self, pictures: OnDisk, purpose: int) -> Streamed:
        return Streamed(pictures, self._puzzles, self.batch, mixed(self.seed, purpose), in_turn=purpose != TRAINING)

    def _parts(self, pictures: Pictures | OnDisk, purpose: int) -> Iterable[Puzzles]:
        if isinstance(pictures, OnDisk):
            return self._streamed(pictures, purpose).puzzles()
        return [self._puzzles(pictures, mixed(self.seed, purpose))]

    def _in_turn(self, pictures: Pictures | OnDisk, purpose: int) -> Batches:
        if isinstance(pictures, OnDisk):
            return self._streamed(pictures, purpose)
        return self._puzzles(pictures, mixed(self.seed, purpose)).in_turn(self.batch)

    @torch.no_grad()
    def _measured(self, network: nn.Module, parts: Iterable[Puzzles]) -> dict[str, float]:
        device = next(network.parameters()).device
        decode, orders, truths = self.relax.decode, [], []
        for given in parts:
            for items, allowed in given.in_turn(self.batch):
                orders.append(decode(network(items.to(device)).cpu(), allowed=allowed))
            truths.append(given.truth)
        order, truth = torch.cat(orders), torch.cat(truths)
        tau = order_tau(order, truth).mean().item()
        return {
            "tau": tau,
            "gain": tau - mask_only_tau(self.grid.n, self.anchors),
            "direct": direct_accuracy(order, truth).mean().item(),
            "neighbour": neighbour_accuracy(order, truth, self.grid).mean().item(),
            "perfect": perfect_accuracy(order, truth).mean().item(),
        }

    def read(self, path: Path, drop: Sequence[str] = ()) -> Tensor:
        """One puzzle: a folder of tiles, or a picture that is a grid of shuffled ones; scaled to the tiles of the training."""
        if drop:
            raise BadInput("--drop leaves out columns of a table; these are pictures.")
        if Path(path).is_dir():
            tiles, _ = read_tiles(path)
        else:
            tiles, _ = cut(read_picture(path), self.grid)
        if len(tiles) != self.grid.n:
            raise BadInput(f"The network orders {self.grid.n} tiles, but {path} holds {len(tiles)}.")
        _, height, width = self.tile
        small = np.stack([scaled(tile, height, width) for tile in tiles])
        items = torch.from_numpy(small).permute(0, 3, 1, 2).flatten(1).float().div(255).unsqueeze(0)
        return nn.functional.pad(items, (0, 1)) if self.supervised else items


class WithoutPlace(nn.Module):
    """A network that does not see the last feature of its items: where they belong."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, items: Tensor) -> Tensor:
        return self.network(items[..., :-1])


def distance_to_picture(P: Tensor, items: Tensor) -> Tensor:
    """Supervised: the mean squared difference between the blended picture and the true one; tiles carry their place."""
    tiles, place = items[..., :-1], items[..., -1:].long()
    picture = torch.zeros_like(tiles).scatter(-2, place.expand_as(tiles), tiles)
    return (reorder(P, tiles.expand(*P.shape[:-2], *tiles.shape[-2:])) - picture).square().mean((-2, -1))
