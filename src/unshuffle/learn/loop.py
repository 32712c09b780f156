"""The loop behind `fit`: steps, epochs, checkpoints, and what to do when it goes wrong."""

from __future__ import annotations

import copy
import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from ..errors import BadInput
from ..files import write_atomic
from ..relaxations.layer import set_epoch
from ..watch import Status, Watch
from .batches import items_and_mask, mixed
from .checkpoint import RunState, load, save
from .descent import Descent
from .objective import Learner
from .team import Team

log = logging.getLogger("unshuffle")

SAVE_EVERY = 60.0  # seconds of work that a kill may cost, where epochs are longer than that
EXPLODED = 1e3  # times the largest loss of any epoch so far: annealing alone changes a loss far less
ROLLBACKS = 8  # of one epoch: the rate is then 1/256 of what was asked for
Patience = int | Callable[[list[dict[str, Any]]], bool]  # epochs without a better held-out loss; or by the history
ENDS: tuple[Status, ...] = get_args(Status)  # where processes differ, the last of these counts


class Diverged(BadInput):
    """Training failed again and again; the message says what to change."""


@dataclass(frozen=True)
class Moment:
    """What a callback gets after every step; `record` is the epoch's line in the log, after its last step."""

    epoch: int
    epochs: int
    step: int
    steps: int | None
    loss: float
    record: dict[str, Any] | None = None
    seconds: float = 0.0
    learner: Learner | None = field(default=None, repr=False, compare=False)
    """Network, relaxation and loss as they are now: to look at, not to change."""

    @property
    def overall(self) -> float:
        """How far this is, from 0 to 1."""
        steps = self.steps or self.step
        return (self.epoch + self.step / max(steps, 1)) / max(self.epochs, 1)

    @property
    def words(self) -> str:
        return f"epoch {self.epoch + 1}/{self.epochs}  loss {self.loss:.4g}"

    @property
    def lasting(self) -> str:
        """What is known after an epoch, and shown until the next is over."""
        parts, record = [], self.record or {}
        if "row_entropy_mean" in record:
            beta = f"beta {record['beta_min']:.3g}-{record['beta_max']:.3g}"
            parts.append(f"entropy {record['row_entropy_mean']:.3f}  {beta}")
        if "held_out" in record:
            parts.append(f"held out {record['held_out']:.4g}")
        return "".join(f"  {part}" for part in parts)


@dataclass
class Loop:
    """One training run. Its `state` is all that changes, and all that a checkpoint holds."""

    team: Team
    learner: Learner
    batches: Callable[[int], Iterable[Any]]
    held_out: Callable[[int], Iterable[Any]] | None
    epochs: int
    samples: int
    descent: Descent
    seed: int
    folder: Path | None
    about: dict[str, Any]
    measures: Callable[[nn.Module], dict[str, float]] | None
    callback: Callable[[Moment], object] | None
    watch: Watch

    def __post_init__(self) -> None:
        self.wrapped = self.team.wrapped(self.learner)
        self.optimiser = self.descent.optimiser(self.learner)
        self.generator = torch.Generator()
        self.state = RunState({}, {})
        self.steps = _length(self.batches)
        self.before = 0.0  # seconds of earlier processes
        self.status: Status = "finished"  # what all processes agreed on, unlike that of the watch
        self._saved = time.perf_counter()

    # --- where the run stands ----------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on from the folder's checkpoint, if it has one of this very run."""
        path = None if self.folder is None else self.folder / "last.pt"
        found = self.team.told(lambda: load(path) if path is not None and path.exists() else None)
        if found is None:
            return
        state, about = found
        different = sorted(k for k in {*about, *self.about} if about.get(k) != self.about.get(k))
        if different:
            raise BadInput(
                f"{self.folder} holds a run with other settings ({', '.join(different)}): name a new folder."
            )
        try:
            self._restore(state)
        except (RuntimeError, ValueError) as error:
            raise BadInput(f"{self.folder} holds a run of another network: name a new folder.") from error
        self.before = state.history[-1]["seconds"] if state.history else 0.0
        self._write_log()

    def _restore(self, state: RunState) -> None:
        self.learner.load_state_dict(state.learner)
        self.optimiser.load_state_dict(state.optimiser)
        self.state = state

    def _capture(self) -> RunState:
        """The state with copies of the weights of this moment."""
        self.state.learner = copy.deepcopy(self.learner.state_dict())
        self.state.optimiser = copy.deepcopy(self.optimiser.state_dict())
        return self.state

    def save(self) -> None:
        if self.folder is not None and self.team.leads:
            save(self._capture(), self.folder / "last.pt", self.about)
        self._saved = time.perf_counter()

    def finish(self) -> None:
        """Put the best weights into the network, and into best.pt."""
        if self.state.best_learner is not None:
            self.learner.load_state_dict(self.state.best_learner)
        if self.folder is not None and self.team.leads:
            best = RunState(self.learner.state_dict(), {}, epoch=self.state.epoch, best=self.state.best)
            best.best_epoch, best.history = self.state.best_epoch, self.state.history
            save(best, self.folder / "best.pt", self.about)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self, patience: Patience | None) -> None:
        with torch.random.fork_rng([self.team.device] if self.team.device.type == "cuda" else []):
            while self.state.epoch < self.epochs and self.status == "finished":
                if patience is not None and self._had_enough(patience):
                    break
                good = copy.deepcopy(self._capture())
                for _ in range(ROLLBACKS):
                    if self._epoch():
                        break
                    good.scale = self.state.scale / 2
                    self._restore(copy.deepcopy(good))
                else:
                    raise Diverged(
                        f"The loss of epoch {good.epoch + 1} is not finite even at {good.scale:.2g} times the learning"
                        " rate; lower the rate or beta, or look for extreme values in the items."
                    )

    def _had_enough(self, patience: Patience) -> bool:
        if callable(patience):
            return patience(self.state.history)
        return self.state.epoch - (self.state.best_epoch or 0) > patience

    def _epoch(self) -> bool:
        """The rest of the current epoch; False if it diverged."""
        state = self.state
        self.learner.train()
        set_epoch(self.learner.network, state.epoch)
        torch.manual_seed(mixed(self.seed, state.epoch))  # for loaders that shuffle by the global generator
        step, items, allowed = 0, None, None
        for step, batch in enumerate(self.batches(state.epoch), 1):
            items, allowed = items_and_mask(batch)
            if step <= state.step:
                continue  # done before the interruption
            loss, norm = self._step(items, allowed, step)
            if not (math.isfinite(loss) and math.isfinite(norm)) or self._exploded(loss):
                log.warning(
                    "epoch %d, step %d: loss %g, gradient %g: back to its start", state.epoch + 1, step, loss, norm
                )
                return False
            state.step, state.total, state.gradient = step, state.total + loss, state.gradient + norm
            if self._must_stop(self._moment(loss)):
                self.save()
                return True
            if time.perf_counter() - self._saved > SAVE_EVERY:
                self.save()
        if items is None:
            raise BadInput(f"There is no batch in epoch {state.epoch + 1}.")
        self._end_epoch(step, items, allowed)
        return True

    def _step(self, items: torch.Tensor, allowed: torch.Tensor | None, step: int) -> tuple[float, float]:
        """Mean loss over all processes, and the norm of the gradient."""
        team, epoch, lists = self.team, self.state.epoch, len(items)
        torch.manual_seed(mixed(self.seed, epoch, step, team.rank))  # for layers such as dropout
        self.generator.manual_seed(mixed(self.seed, epoch, step))
        own = team.share(lists)
        loss = self.wrapped(
            *team.placed(items, allowed, own),
            epoch,
            self.samples,
            generator=self.generator,
            share=team.place(lists),
        )
        weight = (own.stop - own.start) * team.size / lists  # the mean of the processes' means is the joined mean
        self.optimiser.zero_grad()
        (weight * loss).backward()
        (value,) = team.mean(weight * loss.item())
        t = (epoch + ((step - 1) / self.steps if self.steps else 0.0)) / self.epochs
        return value, self.descent.step(self.optimiser, self.learner, t, self.state.scale)

    def _exploded(self, loss: float) -> bool:
        usual = max((record["loss"] for record in self.state.history), default=math.inf)
        return abs(loss) > EXPLODED * max(abs(usual), 1e-6)

    def _must_stop(self, moment: Moment) -> bool:
        """Whether the callback, the clock or Ctrl-C of any process says so: all of them stop after the same step."""
        self.watch.begun = True
        limit = self.watch.time_limit if self.state.epoch < self.epochs else None
        if self.callback is not None and self.callback(moment) is False:
            self.watch.status = "interrupted"
        elif limit is not None and self.watch.seconds > limit and not self.watch.stopped:
            self.watch.status = "time limit"
        self.status = ENDS[self.team.most(ENDS.index(self.watch.status))]
        return self.status != "finished"

    def _moment(self, loss: float, record: dict[str, Any] | None = None) -> Moment:
        state = self.state
        where = state.epoch, self.epochs, state.step, self.steps
        return Moment(*where, loss, record, self.watch.seconds, self.learner)

    # --- the end of an epoch -----------------------------------------------------------------------------------------

    def _end_epoch(self, steps: int, items: torch.Tensor, allowed: torch.Tensor | None) -> None:
        state, self.steps = self.state, steps
        self.learner.eval()
        loss = state.total / steps
        record: dict[str, Any] = {"epoch": state.epoch, "loss": loss, "gradient": state.gradient / steps}
        record["rate"] = self.optimiser.param_groups[0]["lr"]
        report = self.learner.report(*self.team.placed(items, allowed), state.epoch)
        record |= {} if report is None else report.log()
        if self.held_out is not None:
            record["held_out"] = self.team.told(self._held_out_loss)
        if self.measures is not None:
            with torch.no_grad():
                record |= self.measures(self.learner.network)
        record["seconds"] = round(self.before + self.watch.seconds, 3)
        state.history.append(record)
        better = self.held_out is not None and (state.best is None or record["held_out"] < state.best)
        if better:
            state.best, state.best_epoch = record["held_out"], state.epoch
            state.best_learner = copy.deepcopy(self.learner.state_dict())
        state.epoch, state.step, state.total, state.gradient = state.epoch + 1, 0, 0.0, 0.0
        self.save()
        self._write_log()
        where = state.epoch - 1, self.epochs, steps, steps
        self._must_stop(Moment(*where, loss, record, self.watch.seconds, self.learner))

    def _held_out_loss(self) -> float:
        """Mean hard loss; every epoch the same lists."""
        values = []
        for batch in self.held_out(0) if self.held_out is not None else ():
            values.append(self.learner.hard(*self.team.placed(*items_and_mask(batch))))
        return torch.cat(values).double().mean().item()

    def _write_log(self) -> None:
        """log.jsonl: one line per epoch that counts (those after the last checkpoint were lost and are done again)."""
        if self.folder is not None and self.team.leads:
            lines = [json.dumps(record) for record in self.state.history]
            write_atomic(self.folder / "log.jsonl", "".join(line + "\n" for line in lines))


def _length(batches: Callable[[int], Iterable[Any]]) -> int | None:
    try:
        return len(batches)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None
