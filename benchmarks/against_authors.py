"""Ours beside the authors' code on the same inputs, seeds and noise: `python benchmarks/against_authors.py REPO`.

REPO is a checkout of the authors' repository (linked in the paper; it holds the code of sorting, and no licence, so nothing of
it is in here). Their functions are called as they are, and one epoch of their training is recorded: batches, noise, weights.
Ours then gets the same first weights, batches and noise. Their list generator is not in every copy of the repository, so both
sides get lists that are drawn here.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from unshuffle.learn.fit import fit
from unshuffle.metrics import order_tau
from unshuffle.networks import ItemScorer
from unshuffle.operators.assignment import assign
from unshuffle.operators.permutation import reorder
from unshuffle.operators.sinkhorn import sinkhorn
from unshuffle.recipes.draws import DrawnOnce
from unshuffle.recipes.sorting import Sorting
from unshuffle.structure.losses import monotone
from unshuffle.temperature.local import LocalTemperature, MeanTau, Product
from unshuffle.temperature.schedules import Anneal, LinearInTau
from unshuffle.temperature.signals import ExcessEntropy

EPOCHS, ITERATIONS, SAMPLES, BATCH = 150, 10, 5, 256  # theirs
VALUES = (10.0, 11.0)
FIELD = LocalTemperature(ExcessEntropy(0.7), 0.1, MeanTau())
SCHEDULE = Anneal(1 / 1.5, 2.0, EPOCHS, LinearInTau())  # theirs; the text has 0.66 to 2, linear in beta


@dataclass(frozen=True)
class Authors:
    """Their modules."""

    train: ModuleType
    operators: ModuleType


def authors(repository: Path) -> Authors | None:
    """None if it is not there."""
    if not (repository / "number_sorting" / "train.py").is_file():
        return None
    sys.path[:0] = [str(repository), str(repository / "number_sorting")]
    sys.modules["number_utils"] = SimpleNamespace(NumberGenerator=None)  # pyright: ignore[reportArgumentType]
    return Authors(import_module("train"), import_module("utils.gumbel_sinkhorn_ops"))


class Lists(torch.utils.data.Dataset):
    """What their training reads: a list, the list sorted, and the order."""

    def __init__(self, lists: Tensor) -> None:
        self.lists = lists

    def __len__(self) -> int:
        return len(self.lists)

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        ordered, order = self.lists[k].sort()
        return self.lists[k], ordered, order


def settings(n: int, lists: int, batch: int = BATCH, folder: str = "") -> Any:
    """What their benchmark asks for by default, with adaptive temperature and one epoch."""
    return SimpleNamespace(
        n_numbers=n, n_train_lists=lists, n_test_lists=0, min_value=VALUES[0], max_value=VALUES[1], seed=0, train_seed=0,
        test_seed=1, smooth_loss_weight=1.0, smooth_direction="asc", mse_weight=0.0, mask_mode="none", tau=1.5,
        tau_anneal_end=0.5, tau_anneal_schedule="linear", tau_anneal_epochs=EPOCHS, tau_adapt=True,
        tau_adapt_source="sinkhorn", tau_adapt_combine="avg", tau_adapt_entropy_thresh=0.7, tau_adapt_boost_max=0.1,
        tau_adapt_start_epoch=1, n_sink_iter=ITERATIONS, n_samples=SAMPLES, lr=5e-4, batch_size=batch,
        num_workers=0, epochs=1, eval_every=0, hid_c=64, model_type="conv", run_dir=folder, model_path=None,
    )  # fmt: skip


# --- functions on the same inputs ------------------------------------------------------------------------------------


def functions(theirs: Authors, n: int) -> Iterator[tuple[str, float, str]]:
    """What is compared, the largest difference, and what that is of."""
    torch.manual_seed(0)
    S = torch.randn(32, n, n) * 3
    cfg = settings(n, BATCH)
    Q = sinkhorn(S / 1.2, iterations=ITERATIONS)
    yield "Sinkhorn", _largest(theirs.operators.log_sinkhorn_norm(S / 1.2, ITERATIONS), Q), "entries of P"
    noise = _gumbel(_seeded(lambda: torch.rand_like(S)))
    P = _seeded(lambda: theirs.operators.gumbel_sinkhorn(S, 1.2, ITERATIONS))
    yield "Gumbel-Sinkhorn", _largest(P, sinkhorn((S + noise) / 1.2, iterations=ITERATIONS)), "entries of P, same noise"
    for name, way in (("mean", FIELD), ("product", replace(FIELD, combine=Product()))):
        cfg.tau_adapt_combine = "avg" if name == "mean" else "prod"
        tau = theirs.train.adaptive_tau_matrix(S, 1.2, cfg)
        yield f"field, {name}", _largest(tau, 1 / way(Q, 1 / 1.2)), "entries of tau"
    taus = torch.tensor([theirs.train.annealed_tau(cfg, epoch) for epoch in range(EPOCHS)])
    for name, schedule in (("schedule", SCHEDULE), ("schedule of the text", Anneal(0.66, 2.0, EPOCHS))):
        ours = torch.tensor([1 / schedule(epoch) for epoch in range(EPOCHS)])
        yield name, _largest(taus, ours), "tau, all epochs"
    order = theirs.operators.gumbel_matching(S, noise=False).argmax(-2)
    yield "decoding", (order != assign(S)).float().mean().item(), "share of positions"
    guess, truth = torch.rand(2, 32, n).argsort(-1)
    yield "Kendall tau", _largest(theirs.train.kendall_tau(guess, truth), order_tau(guess, truth)), ""


def _largest(first: Tensor, second: Tensor) -> float:
    return (first - second).abs().max().item()


def _seeded(draw: Callable[[], Tensor]) -> Tensor:
    torch.manual_seed(1)
    return draw()


def _gumbel(uniform: Tensor) -> Tensor:
    return -torch.log(-torch.log(uniform + 1e-20) + 1e-20)


# --- a training, recorded and done again -----------------------------------------------------------------------------


@dataclass
class Recorded:
    """An epoch of theirs: what went in, and the weights before and after."""

    first: dict[str, Tensor] = field(default_factory=dict)
    last: dict[str, Tensor] = field(default_factory=dict)
    batches: list[Tensor] = field(default_factory=list)
    uniform: list[Tensor] = field(default_factory=list)  # SAMPLES per batch
    seconds: float = 0.0


def their_epoch(theirs: Authors, lists: Tensor, batch: int) -> Recorded:
    found, n = Recorded(), lists.shape[1]
    build, draw = theirs.train.build_model, torch.rand_like

    def built(cfg: Any) -> nn.Module:
        network = build(cfg)
        found.first = _weights(network)
        network.register_forward_pre_hook(lambda _, inputs: found.batches.append(inputs[0].detach().clone()))
        return network

    def drawn(scores: Tensor) -> Tensor:
        found.uniform.append(draw(scores))
        return found.uniform[-1]

    logging.getLogger("NumberSorting").setLevel(logging.ERROR)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(patch.object(theirs.train, "build_model", built))
        stack.enter_context(patch.object(theirs.train, "NumberGenerator", lambda *_: Lists(lists)))
        stack.enter_context(patch.object(torch, "rand_like", drawn))
        start = time.perf_counter()
        network, _ = theirs.train.train(settings(n, len(lists), batch, folder))
        found.seconds = time.perf_counter() - start
    found.last = _weights(network)
    return found


def our_epoch(recorded: Recorded, n: int) -> dict[str, Tensor]:
    """The weights after the same steps with our network, field, operator and loss."""
    network = ItemScorer(n)
    network.load_state_dict(dict(zip(network.state_dict(), recorded.first.values(), strict=True)))
    optimiser = torch.optim.Adam(network.parameters(), 5e-4)
    beta, uniform = SCHEDULE(0), iter(recorded.uniform)
    for batch in recorded.batches:
        items = batch.mT
        scores = network(items)
        betas = FIELD(sinkhorn(beta * scores.detach(), iterations=ITERATIONS), beta)
        losses = []
        for _ in range(SAMPLES):
            P = sinkhorn(betas * (scores + _gumbel(next(uniform))), iterations=ITERATIONS)
            losses.append(monotone(reorder(P, items)).mean() / (n - 1))  # theirs is a mean over positions
        optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        optimiser.step()
    return _weights(network)


def _weights(network: nn.Module) -> dict[str, Tensor]:
    """Convolutions with a kernel of one as the linear maps that they are."""
    return {
        name: w.detach().clone().flatten(1) if w.ndim > 1 else w.detach().clone()
        for name, w in network.state_dict().items()
    }


def apart(recorded: Recorded, ours: dict[str, Tensor]) -> float:
    """How far the weights ended from theirs, as a share of how far theirs moved.

    Not as small as the rest: Adam's first steps have all the same length, so a gradient that is zero up to rounding still moves.
    """
    first, last, mine = (torch.cat([w.flatten() for w in d.values()]) for d in (recorded.first, recorded.last, ours))
    return ((mine - last).norm() / (last - first).norm()).item()


def our_seconds(lists: Tensor, batch: int) -> float:
    """One epoch of `fit` by the recipe "as published"; the first compiles and is not counted."""
    recipe = Sorting.paper(lists.shape[1], VALUES, "adaptive", as_published=True)
    recipe = replace(recipe, training=DrawnOnce(len(lists)), batch=batch)
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        fit(recipe.network(), recipe.batches(), recipe.loss, recipe.relax, epochs=1, descent=recipe.descent)
        seconds = time.perf_counter() - start
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("repository", type=Path, metavar="REPO", help="a checkout of the authors' repository")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--steps", type=int, default=4, help="of the epoch that is trained twice")
    parser.add_argument("--batch", type=int, default=BATCH, help="lists in a step")
    given = parser.parse_args()
    theirs = authors(given.repository)
    if theirs is None:
        print(f"{given.repository} holds no number_sorting/train.py: not the authors' repository, nothing compared.")
        return
    print(f"| n = {given.n} | difference | of |\n|---|---|---|")
    for what, difference, of in functions(theirs, given.n):
        print(f"| {what} | {difference:.1e} | {of} |")
    lists = VALUES[0] + torch.rand(given.steps * given.batch, given.n, generator=torch.Generator().manual_seed(0))
    one, whole = (their_epoch(theirs, part, given.batch) for part in (lists[: given.batch], lists))
    for what, recorded in (("one step", one), (f"an epoch of {len(whole.batches)} steps", whole)):
        print(
            f"| {what} | {apart(recorded, our_epoch(recorded, given.n)):.1e} | weights, as a share of the way they went |"
        )
    ours, steps = our_seconds(lists, given.batch), len(whole.batches)
    print(
        f"\nA step of {given.batch} lists x {SAMPLES} samples takes {whole.seconds / steps:.3f} s with theirs and {ours / steps:.3f} s"
        f" with ours ({torch.get_num_threads()} threads): {whole.seconds / ours:.1f} times faster."
    )


if __name__ == "__main__":
    main()
