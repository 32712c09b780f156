"""Learn jigsaws from a folder of pictures, without being shown how one goes: the paper's protocol, and a stronger one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..learn.batches import Batches, Shuffled, mixed
from ..learn.descent import Cosine, Descent, Steady
from ..learn.objective import Loss, OnPermutation
from ..metrics import direct_accuracy, mask_only_tau, neighbour_accuracy, order_tau, perfect_accuracy
from ..networks import SeamScorer, TileScorer
from ..readers.pictures import read_picture, read_tiles
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..structure.layouts import Grid
from ..structure.losses import Smoothness
from ..structure.seams import SeamMisfit
from ..tasks.jigsaw import cut
from .puzzles import Puzzles, Split, puzzles, read_folder, scaled
from .training import Temperature

PICTURE = 178  # pixels a side, the paper's
# side: anchors, epochs, last beta, share of the epochs in which it is reached, exponentially?, H0, b_max (the paper's table)
PAPER = {
    4: (0, 500, 2.0, 1.0, False, 0.6, 0.35),
    5: (1, 500, 2.0, 1.0, False, 0.7, 0.20),
    6: (6, 600, 1.33, 0.5, True, 0.85, 0.35),
    7: (12, 600, 1.66, 1.0, True, 0.85, 0.35),
}


@dataclass(frozen=True)
class Jigsaw:
    """Puzzles of `side` x `side` tiles, cut from the pictures of the folder `data`."""

    TASK: ClassVar[str] = "jigsaw"

    side: int
    data: str
    most: int | None  # pictures taken from the folder; None: all
    pixels: int  # pictures are scaled to a square of this side, then cropped to a multiple of `side`
    anchors: int  # tiles per picture whose place is given away
    temperature: Temperature
    noise: float
    epochs: int
    batch: int
    samples: int
    rate: float
    clip: float | None
    cosine: bool  # the rate falls to 0
    scorer: tuple[int, int, int] | None  # width, layers and thumbnail of a `SeamScorer`; None: the paper's `TileScorer`
    band: int | None  # of blended seams, 1: smooth1, k: smooth2k; None: pair energies
    seed: int

    def __post_init__(self) -> None:
        if self.side < 2:
            raise BadInput(f"A jigsaw has at least 2 tiles a side, not {self.side}.")
        if self.temperature.degree:
            raise BadInput(
                "Degree violation is a signal of tours; for jigsaws take fixed, global, adaptive or matched."
            )

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
    ) -> Jigsaw:
        """The paper's protocol: every tile by itself, blended seams, Gumbel noise, random anchors enforced by a mask.

        178 is no multiple of 5, 6 or 7: cropped. Fewer epochs stretch the schedule over what is left. "fixed" is beta = 1, the
        better of the paper's two. `as_published`, after the authors' sorting code: linear in tau, mean of tau, no clipping.
        """
        if side not in PAPER:
            raise BadInput(f"The paper has jigsaws of {', '.join(map(str, PAPER))} tiles a side, not {side}.")
        anchors, published, end, share, exponential, threshold, boost = PAPER[side]
        epochs = epochs or published
        base = Temperature(
            start=1.0 if temperature == "fixed" else 0.5,
            end=end,
            epochs=max(round(share * epochs), 1),
            threshold=threshold,
            adapt_from=1,
            product=product,
            exponential=exponential,
            linear_in_tau=as_published and not exponential,
            mean_of_tau=as_published,
        )
        return cls(
            side=side,
            data=str(data),
            most=None,
            pixels=pixels,
            anchors=anchors,
            temperature=base.named(temperature, boost),
            noise=1.0,
            epochs=epochs,
            batch=32,
            samples=5,
            rate=1e-4,
            clip=None if as_published else 1.0,
            cosine=False,
            scorer=None,
            band=band,
            seed=seed,
        )

    @classmethod
    def strong(
        cls, data: Path | str, side: int = 5, temperature: str = "global", seed: int = 0, epochs: int = 20
    ) -> Jigsaw:
        """What we recommend: no anchors, pair energies of seams, a network whose tiles ask their likely neighbours.

        Chosen on held-out portraits. beta 1 to 4: soft while the scores find their scale, and at the end soft and hard loss
        agree. No noise: seams leave little to explore.
        """
        return cls(
            side=side,
            data=str(data),
            most=None,
            pixels=PICTURE,
            anchors=0,
            temperature=Temperature(1.0, 4.0, epochs, exponential=True).named(temperature, boost=0.2),
            noise=0.0,
            epochs=epochs,
            batch=32,
            samples=1,
            rate=1e-3,
            clip=1.0,
            cosine=True,
            scorer=(64, side + 1, 6),  # news must cross the grid
            band=None,
            seed=seed,
        )

    @property
    def grid(self) -> Grid:
        return Grid(self.side, self.side)

    @property
    def tile(self) -> tuple[int, int, int]:
        return 3, self.pixels // self.side, self.pixels // self.side

    def network(self) -> nn.Module:
        if self.scorer is None:
            return TileScorer(self.grid.n, self.tile)
        return SeamScorer(self.grid.n, self.tile, *self.scorer)

    def relax(self) -> GumbelSinkhorn:
        return self.temperature.relax(iterations=10, noise=self.noise)

    def loss(self) -> Loss:
        if self.band is None:
            return OnPermutation(SeamMisfit(self.grid, self.tile))
        return Smoothness(self.grid, self.tile, self.band)

    def descent(self) -> Descent:
        return Descent(self.rate, self.clip, Cosine() if self.cosine else Steady())

    def batches(self) -> Batches:
        train = self._puzzles(self.pictures().train, 1)
        return Shuffled(train.items, self.batch, self.seed, train.allowed)

    def held_out(self) -> Batches:
        return self._puzzles(self.pictures().held_out, 2).in_turn(self.batch)

    def measures(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._measured(network, self._puzzles(self.pictures().held_out, 2))["tau"]}

    def known(self) -> tuple[Tensor, Tensor | None, Tensor]:
        given = self._puzzles(self.pictures().held_out, 2)
        return given.items, given.allowed, given.truth

    def test(self, network: nn.Module) -> dict[str, float]:
        """Means over the test pictures; `gain` is Kendall tau beyond what the anchors alone give."""
        return self._measured(network, self._puzzles(self.pictures().test, 3))

    def pictures(self) -> Split:
        return read_folder(Path(self.data), self.pixels, self.most)

    def _puzzles(self, pictures: Tensor, purpose: int) -> Puzzles:
        """Training (1), validation (2), test (3): shuffles and anchors are equal for all methods with one seed."""
        return puzzles(pictures, self.side, self.anchors, mixed(self.seed, purpose))

    @torch.no_grad()
    def _measured(self, network: nn.Module, given: Puzzles) -> dict[str, float]:
        device = next(network.parameters()).device
        decode, orders = self.relax().decode, []
        for items, allowed in given.in_turn(self.batch):
            orders.append(decode(network(items.to(device)).cpu(), allowed=allowed))
        order, truth = torch.cat(orders), given.truth
        tau = order_tau(order, truth).mean().item()
        return {
            "tau": tau,
            "gain": tau - mask_only_tau(self.grid.n, self.anchors),
            "direct": direct_accuracy(order, truth).mean().item(),
            "neighbour": neighbour_accuracy(order, truth, self.grid).mean().item(),
            "perfect": perfect_accuracy(order, truth).mean().item(),
        }

    def read(self, path: Path) -> Tensor:
        """One puzzle: a folder of tiles, or a picture that is a grid of shuffled ones; scaled to the tiles of the training."""
        if Path(path).is_dir():
            tiles, _ = read_tiles(path)
        else:
            tiles, _ = cut(read_picture(path), self.grid)
        if len(tiles) != self.grid.n:
            raise BadInput(f"The network orders {self.grid.n} tiles, but {path} holds {len(tiles)}.")
        _, height, width = self.tile
        small = np.stack([scaled(tile, height, width) for tile in tiles])
        return torch.from_numpy(small).permute(0, 3, 1, 2).flatten(1).float().div(255).unsqueeze(0)
