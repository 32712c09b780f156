"""The sorting task with another relaxation in the place of Gumbel-Sinkhorn: same lists, loss and descent."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..learn.batches import Batches
from ..learn.descent import Descent
from ..learn.objective import Loss
from ..metrics import order_tau
from ..recipes.sorting import Sorting
from ..relaxations.protocol import Relaxation


@dataclass(frozen=True)
class SortingVariant:
    """All of a recipe but TASK, `network` and `relax`, which the variants say."""

    sorting: Sorting

    @property
    def epochs(self) -> int:
        return self.sorting.epochs

    @property
    def samples(self) -> int:
        return 1  # nothing is random

    @property
    def seed(self) -> int:
        return self.sorting.seed

    def network(self) -> nn.Module:
        return self.sorting.network()

    def relax(self) -> Relaxation:
        raise NotImplementedError

    def loss(self) -> Loss:
        return self.sorting.loss()

    def descent(self) -> Descent:
        return self.sorting.descent()

    def batches(self) -> Batches:
        return self.sorting.batches()

    def held_out(self) -> Tensor:
        return self.sorting.held_out()

    def measures(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._tau(network, self.held_out())}

    def test(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._tau(network, self.sorting.test_set())}

    def known(self) -> None:
        """No confidence is asked of it."""

    def _tau(self, network: nn.Module, lists: Tensor) -> float:
        device = next(network.parameters()).device
        order = self.relax().decode(network(lists.to(device))).cpu()
        return order_tau(order, lists.squeeze(-1).argsort(-1)).mean().item()
