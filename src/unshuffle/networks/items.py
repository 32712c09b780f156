"""Every item by itself: the paper's sorting network."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv2d

from ..errors import BadInput, shown, whole
from ..shapes import Items

ItemScores = Float[Tensor, "*batch n positions"]
MANY = 96  # outputs from which on a convolution is quicker


def sizes(**named: int) -> None:
    """Nothing, if all of them are whole numbers of at least 1; otherwise one sentence."""
    for name, size in named.items():
        whole(name, size, 1)


def tile_of(tile: tuple[int, int, int]) -> tuple[int, int, int]:
    """The same tile if it is (channels, height, width); otherwise one sentence."""
    if not isinstance(tile, (tuple, list)) or len(tile) != 3:
        raise BadInput(f"tile must be (channels, height, width), not {shown(tile)}.")
    colours, height, width = (whole("An entry of tile (channels, height, width)", size, 1) for size in tile)
    return colours, height, width


def count_parameters(network: nn.Module) -> int:
    """How many numbers training changes."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def standardised(items: Items) -> Items:
    """Mean 0 and deviation 1 within each list: [10, 11] and [0, 1] look the same to a network."""
    centred = items - items.mean(-2, keepdim=True)
    scale = centred.square().mean(-2, keepdim=True).sqrt()
    return centred / scale.clamp_min(1e-6)  # a list of equal items stays 0


def _glorot(layer: nn.Linear) -> nn.Linear:
    """Xavier normal weights and zero bias, the initialisation of the paper's code."""
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class PerItem(nn.Linear):
    """One linear map for every item, (*batch, n, in) to (*batch, n, out); to many outputs as a convolution with kernel 1.

    That is what the paper calls it, and on a CPU torch has other, quicker code for it, with the same numbers.
    """

    def forward(self, input: Float[Tensor, "*batch n in"]) -> Float[Tensor, "*batch n out"]:
        by_maps = self.out_features >= MANY and input.ndim > 2 and input.dtype == torch.float32
        if not by_maps or input.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        maps = input.flatten(0, -3).unsqueeze(2).permute(0, 3, 1, 2)  # (batch, in, n, 1), in as the innermost
        return (
            conv2d(maps, self.weight[:, :, None, None], self.bias)
            .permute(0, 2, 3, 1)
            .reshape(*input.shape[:-1], self.out_features)
        )


class ItemScorer(nn.Module):
    """The paper's sorting network: every item by itself, features -> hidden -> positions.

    The paper says Conv1d with kernel 1; that is one linear map applied to every item.
    """

    def __init__(self, positions: int, features: int = 1, hidden: int = 64, standardise: bool = False) -> None:
        super().__init__()
        sizes(positions=positions, features=features, hidden=hidden)
        self.standardise = standardise
        self.layers = nn.Sequential(
            _glorot(nn.Linear(features, hidden)), nn.ReLU(inplace=True), _glorot(PerItem(hidden, positions))
        )

    def forward(self, items: Items) -> ItemScores:
        first, rectified, last = self.layers
        flat = (standardised(items) if self.standardise else items).flatten(0, -2)
        # in place on a matrix, not on a view of one: the gradient of that would be copied twice
        return last(rectified(first(flat)).unflatten(0, items.shape[:-1]))


class KeyScorer(nn.Module):
    """One key per item, for `NeuralSort` and `SoftSort`: an `ItemScorer` with a single position."""

    def __init__(self, features: int = 1, hidden: int = 64, standardise: bool = False) -> None:
        super().__init__()
        self.scorer = ItemScorer(1, features, hidden, standardise)

    def forward(self, items: Items) -> Float[Tensor, "*batch n"]:
        return self.scorer(items).squeeze(-1)
