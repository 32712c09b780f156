"""One process or several (`torchrun`): each takes its share of every batch, and all take the same step."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import BadInput
from .objective import Learner

_trainings = itertools.count()


@dataclass(frozen=True)
class Team:
    """This process among `size` of them."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def share(self, lists: int) -> slice:
        """The lists of a batch that this process computes."""
        if lists < self.size:
            raise BadInput(f"A batch of {lists} lists cannot be shared by {self.size} processes; make it larger.")
        return slice(lists * self.rank // self.size, lists * (self.rank + 1) // self.size)

    def place(self, lists: int) -> tuple[int, int] | None:
        """Where this process's lists stand in the joined batch: a relaxation then draws the noise that one process would."""
        return None if self.size == 1 else (self.share(lists).start, lists)

    def wrapped(self, learner: Learner) -> nn.Module:
        """The module whose backward pass averages the gradients over all processes."""
        if self.size == 1:
            return learner
        # a learned temperature is not in use before its epoch
        return nn.parallel.DistributedDataParallel(learner, find_unused_parameters=learner.learns_temperature)

    def mean(self, *values: float) -> list[float]:
        """The mean over the processes; NaN for all if any has NaN."""
        if self.size == 1:
            return list(values)
        joined = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(joined)
        return (joined / self.size).tolist()

    def most(self, value: int) -> int:
        """The largest of the processes' values."""
        if self.size == 1:
            return value
        joined = torch.tensor(value, device=self.device)
        dist.all_reduce(joined, dist.ReduceOp.MAX)
        return int(joined)

    def told(self, find: Callable[[], Any]) -> Any:
        """What the leading process finds, for all; an error of its own is one of all."""
        if self.size == 1:
            return find()
        box: list[Any] = [None, None]
        if self.leads:
            try:
                box[0] = find()
            except Exception as error:  # whatever it is, the others must not wait for ever
                box[1] = error
        dist.broadcast_object_list(box, src=0)
        if box[1] is not None:
            raise box[1]
        return box[0]

    def placed(self, items: Tensor, allowed: Tensor | None, share: slice | None = None) -> tuple[Tensor, Tensor | None]:
        """A batch, or a share of it, on this process's device."""
        if share is not None and self.size > 1:
            one_each = allowed is not None and allowed.ndim > 2 and len(allowed) == len(items)
            items, allowed = items[share], allowed[share] if allowed is not None and one_each else allowed
        return items.to(self.device), None if allowed is None else allowed.to(self.device)


def usable(device: str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (TypeError, RuntimeError, AssertionError, NotImplementedError):  # a typo, or not on this machine
        raise BadInput(f"There is no device {device!r} here; cpu is always there.") from None


@contextmanager
def joined(device: str | None) -> Iterator[Team]:
    """The team that the environment asks for: `torchrun` sets RANK and WORLD_SIZE."""
    place = usable(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1 and not (dist.is_available() and dist.is_initialized()):
        yield Team(place)
        return
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(place)
    ours = not dist.is_initialized()
    if ours:
        # not in every build of torch
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        # each training meets under a name of its own: under that of the one before, addresses of processes are still there
        store, rank, size = next(iter(rendezvous("env://")))
        store = PrefixStore(f"unshuffle {next(_trainings)}", store)
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield Team(place, dist.get_rank(), dist.get_world_size())
        if ours:
            dist.barrier()  # gloo may abort a process whose peer hangs up first
    finally:
        if ours:
            dist.destroy_process_group()
