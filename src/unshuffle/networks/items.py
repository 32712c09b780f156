"""Every item by itself: the paper's sorting network."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from ..shapes import Items

ItemScores = Float[Tensor, "*batch n positions"]


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


class ItemScorer(nn.Module):
    """The paper's sorting network: every item by itself, features -> hidden -> positions.

    The paper says Conv1d with kernel 1; that is one linear map applied to every item, so it is written as such.
    """

    def __init__(self, positions: int, features: int = 1, hidden: int = 64, standardise: bool = False) -> None:
        super().__init__()
        self.standardise = standardise
        self.layers = nn.Sequential(
            _glorot(nn.Linear(features, hidden)), nn.ReLU(), _glorot(nn.Linear(hidden, positions))
        )

    def forward(self, items: Items) -> ItemScores:
        return self.layers(standardised(items) if self.standardise else items)


class KeyScorer(nn.Module):
    """One key per item, for `NeuralSort` and `SoftSort`: an `ItemScorer` with a single position."""

    def __init__(self, features: int = 1, hidden: int = 64, standardise: bool = False) -> None:
        super().__init__()
        self.scorer = ItemScorer(1, features, hidden, standardise)

    def forward(self, items: Items) -> Float[Tensor, "*batch n"]:
        return self.scorer(items).squeeze(-1)
