"""`fit`: train a network to order, from structure alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from .. import plots
from ..compute.memory import pages_kept
from ..errors import BadInput, function, shown, whole
from ..relaxations.protocol import Relaxation
from ..watch import Status, Watch
from .batches import Batches, by_epoch, in_turn
from .descent import Descent
from .loop import Loop, Moment, Patience
from .modes import modes_kept
from .objective import Learner, Loss
from .team import joined

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("loss", "held_out", "tau", "row_entropy_mean")  # of the log, in a picture


@dataclass(frozen=True, repr=False)
class Fitted:
    """A trained network and how it got there."""

    network: nn.Module  # with the weights of the best epoch, if there were held-out lists; else of the last
    history: list[dict[str, Any]]  # one line per epoch: loss, held-out loss, entropies, temperatures, seconds
    best_epoch: int | None
    best: float | None  # hard loss on the held-out lists
    status: Status
    folder: Path | None

    def __repr__(self) -> str:
        epochs = len(self.history)
        best = "" if self.best_epoch is None else f", best {self.best:.4g} in epoch {self.best_epoch + 1}"
        return f"Fitted({type(self.network).__name__}, {self.status} after {epochs} epoch{'s' * (epochs != 1)}{best})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Loss, held-out loss and entropy against the epoch, each between its least and its greatest."""
        if not self.history:
            raise BadInput("No epoch was finished, so there is nothing to plot.")
        names = [name for name in SHOWN if name in self.history[-1]]
        return plots.draw_records(plots.new_axes(ax, (5.6, 3.6)), self.history, names)

    def _repr_html_(self) -> str:
        epochs = len(self.history)
        lines = [f"{self.status} after {epochs} epoch{'s' * (epochs != 1)}"]
        if self.best is not None and self.best_epoch is not None:
            lines.append(f"best on held-out lists: {self.best:.4g}, epoch {self.best_epoch + 1}")
        lines.append(f"weights: {sum(p.numel() for p in self.network.parameters()):,}")
        draw = self.plot if self.history else (lambda ax: ax.set_axis_off())
        return plots.card(f"Fitted {type(self.network).__name__}", lines, draw)


def fit(
    network: nn.Module,
    batches: Batches,
    loss: Loss,
    relax: Relaxation,
    *,
    epochs: int,
    batch: int = 64,
    samples: int = 5,
    descent: Descent = Descent(),
    held_out: Batches | None = None,
    patience: Patience | None = None,
    measures: Callable[[nn.Module], dict[str, float]] | None = None,
    folder: Path | str | None = None,
    about: dict[str, Any] | None = None,
    seed: int = 0,
    device: str | None = None,
    time_limit: float | None = None,
    callback: Callable[[Moment], object] | None = None,
) -> Fitted:
    """Train `network` so that the relaxed order of its scores has a small structural `loss`; true orders are not seen.

    `batches`: all lists (lists, items, features), of which `batch` make a step; or a loader that can be iterated every
    epoch; or a function of the epoch. A batch is items, or (items, allowed). `loss` is a function of the reordered items,
    or `OnPermutation(f)` with f(P, items). The loss is averaged over `samples` noisy permutations.

    After each epoch the hard loss (of the decoded orders) on `held_out` decides which weights are kept, and `patience`
    epochs without a better one end the training (or a function of the history, the lines of the log so far, that says so). `measures(network)` adds numbers to the log and decides nothing.

    With a `folder`: last.pt (at least once a minute), best.pt, log.jsonl; the same call goes on where a killed one stopped
    and ends with the same weights. A loss that is not finite or explodes is rolled back to the epoch's start at half the
    rate. Ctrl-C and `time_limit` save and return. Under `torchrun`, every process takes its share of each batch.
    """
    if not isinstance(network, nn.Module) or not any(True for _ in network.parameters()):
        raise BadInput(f"The network must be a torch module with weights to train, not {shown(network)}.")
    function("The loss", loss, "us.losses.monotone")
    function("relax", relax, "us.GumbelSinkhorn()", "scores")
    for name, called in {"measures": measures, "callback": callback}.items():
        if called is not None:
            function(name, called, "lambda moment: print(moment)" if name == "callback" else "lambda network: {}")
    if not isinstance(descent, Descent):
        raise BadInput(f"descent must be a us.Descent(rate), not {shown(descent)}.")
    for name, count, least in (("epochs", epochs, 1), ("samples", samples, 1), ("batch", batch, 1), ("seed", seed, 0)):
        whole(name, count, least)
    if patience is not None and not callable(patience):
        whole("patience", patience, 0)
        if held_out is None:
            raise BadInput("patience waits for a better loss on held_out lists: give those too, or leave it out.")
    settings = {"epochs": epochs, "samples": samples, "batch": batch, "seed": seed}
    settings |= {"relax": _lasting(relax), "descent": _lasting(descent), **(about or {})}
    # the network comes back in evaluation, the relaxation as it was: it is a value that others may use
    with joined(device) as team, Watch(time_limit, None) as watch, modes_kept(relax), pages_kept():
        loop = Loop(
            team=team,
            learner=Learner(network, relax, loss).to(team.device),
            batches=by_epoch(batches, batch, seed),
            held_out=None if held_out is None else in_turn(held_out, batch),
            epochs=epochs,
            samples=samples,
            descent=descent,
            seed=seed,
            folder=None if folder is None else Path(folder),
            about=settings,
            measures=measures,
            callback=callback,
            watch=watch,
        )
        loop.resume()
        loop.run(patience)
        loop.finish()
    state = loop.state
    return Fitted(network, state.history, state.best_epoch, state.best, loop.status, loop.folder)


def _lasting(settings: object) -> str:
    """The repr without addresses in memory, which differ from run to run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(settings))
