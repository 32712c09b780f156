"""Learn to order cities into a short tour, from lengths alone: no true tour is ever seen, nothing is searched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..learn.batches import Batches, Fresh, Shuffled, mixed
from ..learn.descent import Cosine, Descent, Stairs
from ..learn.objective import OnPermutation
from ..networks import TourScorer
from ..networks.unrolled import UnrolledAnnealer
from ..relaxations.gumbel_sinkhorn import ColumnSoftmax, GumbelSinkhorn
from ..structure.energies import pair_distances, utsp_loss
from ..structure.losses import tour_length
from ..tasks.tour import read_cities
from .training import Temperature


@dataclass(frozen=True)
class Tour:
    """Tours through `n` uniform random cities in the unit square, scored against positions on a ring.

    The penalty on row sums is not only for UTSP. Sinkhorn ends with the columns, and rows of scores that spread wide do not
    converge in any fixed number of iterations: without the penalty the network learns such scores, leaves cities out, and
    the loss falls below any tour (measured on GS UTSP, n = 100: a "length" of 4.3, where the shortest tours have 15.5).
    """

    TASK: ClassVar[str] = "tour"

    n: int
    temperature: Temperature
    epochs: int
    batch: int
    samples: int
    noise: float
    iterations: int  # of Sinkhorn
    rate: float
    stairs: bool  # StepLR: times 0.8 fifteen times; else a cosine to 0
    instances: int | None  # training instances; None: fresh ones at every step
    steps: int  # per epoch, with fresh instances
    held_out_instances: int
    test_instances: int
    hidden: int  # width of the paper's network
    unrolled: tuple[int, int, int] | None  # steps of our network per first, middle and last level; None: the paper's
    columns_only: bool  # UTSP: softmax over items, instead of Sinkhorn
    row_weight: float  # of the penalty on row sums
    loop_weight: float  # what a city that follows itself costs, in lengths
    scale: float  # unit square to the coordinates in which lengths are counted
    seed: int

    def __post_init__(self) -> None:
        if self.n < 5:
            raise BadInput(f"Learning tours needs at least five cities, not {self.n}.")

    @classmethod
    def paper(
        cls,
        n: int = 100,
        temperature: str = "degree",
        seed: int = 0,
        epochs: int | None = None,
        utsp: bool = False,
        as_published: bool = False,
        batch: int | None = None,
        samples: int = 8,
    ) -> Tour:
        """The paper's protocol: GS UTSP with a "fixed" temperature, + TA is "global", + DV-TA is "degree"; or UTSP itself.

        `as_published`: linear in tau, mean of tau. Epochs, when cut, cut the schedules with them. The paper does not say the
        temperature of plain GS UTSP: here the first of its schedule, throughout. It says that row sums are penalised, not how
        much: here as in UTSP.
        """
        small = n <= 200
        whole, annealed = (300, 200) if small else (500, 300)
        epochs = epochs or whole
        start, end = (1.0, 5.0) if small else (1 / 3.5, 2.0)
        base = Temperature(
            start,
            end,
            max(1, round(annealed * epochs / whole)),
            threshold=0.65,
            adapt_from=round(30 * epochs / whole),
            linear_in_tau=as_published,
            mean_of_tau=as_published,
        )
        return cls(
            n=n,
            temperature=base.named("fixed" if utsp else temperature, boost=0.1),
            epochs=epochs,
            batch=batch or (128 if small else 8),
            samples=1 if utsp else samples,
            noise=1.0,
            iterations=50,
            rate=3e-3,
            stairs=True,
            instances=2000,
            steps=0,
            held_out_instances=64,
            test_instances=64,
            hidden=64 if n < 1000 else 128,
            unrolled=None,
            columns_only=utsp,
            row_weight=20.0 if small else 10.0,
            loop_weight=0.1 if utsp else 0.0,
            scale=2.0,
            seed=seed,
        )

    @classmethod
    def strong(cls, n: int = 50, temperature: str = "fixed", seed: int = 0, epochs: int = 6) -> Tour:
        """What we recommend: an annealer of a few dozen steps as the network, and a loss that has no way out.

        62 numbers to learn, so a hundred steps are enough, and what was learned at one n serves the others. Weights and
        temperature were chosen by the hard length on generated instances (n = 50) that no benchmark reports.
        """
        edge = n**-0.5  # about the length of an edge
        return cls(
            n=n,
            temperature=Temperature(3.0, 6.0, epochs).named(temperature, boost=0.1),
            epochs=epochs,
            batch=32,
            samples=1,
            noise=0.0,
            iterations=100,
            rate=0.02,
            stairs=False,
            instances=None,
            steps=15,
            held_out_instances=128,
            test_instances=64,
            hidden=0,
            unrolled=(6, 6, 16),
            columns_only=False,
            # without it 22 steps learn to leave cities out: 6.7 % becomes 6.9 and 8.1 %, with it 5.5 %
            row_weight=20.0 * edge,
            # at 0 a city shared between two neighbouring places is shorter than any tour
            loop_weight=0.7 * edge,
            scale=1.0,
            seed=seed,
        )

    def network(self) -> nn.Module:
        if self.unrolled is not None:
            return UnrolledAnnealer(self.unrolled)
        return TourScorer(self.n, self.hidden, rescale=self.scale)

    def relax(self) -> ColumnSoftmax | GumbelSinkhorn:
        return ColumnSoftmax() if self.columns_only else self.temperature.relax(self.iterations, self.noise)

    def loss(self) -> OnPermutation:
        return OnPermutation(partial(soft_length, self.scale, self.row_weight, self.loop_weight))

    def descent(self) -> Descent:
        # UTSP's StepLR(20, 0.8) over 300 epochs, by the share of the training that has passed
        return Descent(self.rate, 1.0, Stairs(1 / 15, 0.8) if self.stairs else Cosine(warm=0.05))

    def batches(self) -> Batches:
        if self.instances is None:
            return Fresh(lambda generator: self._draw(self.batch, generator), self.steps, mixed(self.seed, 1))
        return Shuffled(self.cities(self.instances, 1), min(self.batch, self.instances), self.seed)

    def held_out(self) -> Tensor:
        return self.cities(self.held_out_instances, 2)

    def measures(self, network: nn.Module) -> dict[str, float]:
        return {}  # the held-out loss is the mean length

    def known(self) -> None:
        """A tour can start anywhere: no city has a true position."""
        return None

    def test(self, network: nn.Module) -> dict[str, float]:
        """Mean length on unseen instances, and nearest neighbour's on the same."""
        cities = self.cities(self.test_instances, 3)
        nearest = tour_length(ordered(cities, nearest_neighbour(cities)))
        length = tour_length(ordered(cities, self.order(network, cities)))
        return {
            "length": self.scale * length.mean().item(),
            "nearest_neighbour": self.scale * nearest.mean().item(),
            "shorter_than_nearest_neighbour": 1 - (length / nearest).mean().item(),
        }

    @torch.no_grad()
    def order(self, network: nn.Module, cities: Tensor, batch: int = 32) -> Tensor:
        """One forward pass and an assignment."""
        device = next(network.parameters()).device
        decode = self.relax().decode
        return torch.cat([decode(network(part.to(device))).cpu() for part in cities.split(batch)])

    def cities(self, count: int, purpose: int) -> Tensor:
        """Training (1), validation (2) and test (3) instances are different draws; equal for all methods with one seed."""
        return self._draw(count, torch.Generator().manual_seed(mixed(self.seed, purpose)))

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand(count, self.n, 2, generator=generator)

    def read(self, path: Path) -> Tensor:
        """One instance (a CSV of coordinates or a TSPLIB file), in the unit square."""
        points = read_cities(path).points
        if points is None:
            raise BadInput(f"{Path(path).name} has distances but no coordinates, and the network sees coordinates.")
        if self.unrolled is None and len(points) != self.n:
            raise BadInput(f"The network orders {self.n} cities, but {Path(path).name} has {len(points)}.")
        low, high = points.amin(0), points.amax(0)
        return ((points - low) / (high - low).max().clamp_min(1e-12)).float().unsqueeze(0)


def soft_length(scale: float, row_weight: float, loop_weight: float, P: Tensor, items: Tensor) -> Tensor:
    r"""Expected length $\sum_j p_j^T D p_{j+1}$, with UTSP's two penalties; per list."""
    return utsp_loss(P, scale * pair_distances(items), row_weight, loop_weight)


def ordered(cities: Tensor, order: Tensor) -> Tensor:
    """The cities in this order, per list."""
    return cities.gather(-2, order.unsqueeze(-1).expand(*order.shape, cities.shape[-1]))


def nearest_neighbour(cities: Tensor) -> Tensor:
    """From the first city always on to the nearest that is left: what any learned tour has to beat."""
    D = pair_distances(cities)
    at = torch.zeros(len(cities), dtype=torch.long, device=cities.device)
    order = [at]
    for _ in range(cities.shape[-2] - 1):
        D.scatter_(-1, at[:, None, None].expand(-1, D.shape[-2], 1), torch.inf)  # nobody goes there again
        at = D[torch.arange(len(cities), device=cities.device), at].argmin(-1)
        order.append(at)
    return torch.stack(order, -1)
