"""Two processes that want different things end together; run by torchrun (see test_learn.py), one result file each."""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import unshuffle as us
from unshuffle.networks import ItemScorer

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, out = dist.get_rank(), Path(sys.argv[1])
items = torch.rand(10, 6, 1, generator=torch.Generator().manual_seed(1))


def ended(**settings) -> list:
    torch.manual_seed(0)
    batches, relax = [items] * 4, us.GumbelSinkhorn()
    fitted = us.fit(ItemScorer(6, hidden=8), batches, us.losses.monotone, relax, epochs=3, samples=1, **settings)
    return [fitted.status, len(fitted.history)]


seen = []
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
dist.barrier()
dist.destroy_process_group()
