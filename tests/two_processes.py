"""Two processes take the steps of one, and end together whatever each wants; run by torchrun (see test_learn.py).

torchrun --standalone --nproc-per-node 2 tests/two_processes.py FOLDER
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import unshuffle as us
from unshuffle.networks import ItemScorer


def three_steps(file: Path) -> None:
    """With adaptive temperature and noise, alone or in a group of processes that the training itself joins."""
    torch.manual_seed(0)
    network = ItemScorer(8, hidden=16)
    items = torch.rand(10, 8, 1, generator=torch.Generator().manual_seed(1))  # 5 and 5 lists
    relax = us.GumbelSinkhorn(us.Constant(1.0), us.LocalTemperature())
    us.fit(network, [items] * 3, us.losses.monotone, relax, epochs=1, samples=3)
    if os.environ.get("RANK", "0") == "0":
        weights = torch.cat([p.detach().flatten() for p in network.parameters()])
        gradient = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        torch.save({"network": weights, "gradient": gradient}, file)


def ended(**settings) -> list:
    torch.manual_seed(0)
    items = torch.rand(10, 6, 1, generator=torch.Generator().manual_seed(1))
    batches, relax = [items] * 4, us.GumbelSinkhorn()
    fitted = us.fit(ItemScorer(6, hidden=8), batches, us.losses.monotone, relax, epochs=3, samples=1, **settings)
    return [fitted.status, len(fitted.history)]


def different_wishes(out: Path) -> None:
    """One result file each."""
    rank, seen = dist.get_rank(), []
    found = {
        "callback": ended(callback=lambda moment: seen.append(moment) if rank == 0 else moment.step < 2),
        "end of an epoch": ended(callback=lambda moment: rank == 0 or moment.record is None),
        "clock": ended(time_limit=1e-6 if rank == 1 else None),
        "steps of the other": len(seen),
    }
    if rank == 0:
        (out / "run").mkdir(exist_ok=True)  # the test may run this script once more
        (out / "run" / "last.pt").write_bytes(b"not a checkpoint")
    dist.barrier()
    try:
        # the folder is on the leader's disk alone
        ended(folder=out / "run" if rank == 0 else out / "elsewhere")
    except us.BadInput as error:
        found["damaged"] = str(error).replace(str(out), "")
    (out / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for _ in range(2):  # each joins a group of its own
        three_steps(folder / "two.pt")
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    different_wishes(folder)
    dist.barrier()
    dist.destroy_process_group()
