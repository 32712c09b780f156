"""Which code computes Sinkhorn: chosen here, and nowhere else, by device, dtype and size."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass

import torch

from ..compute.jit import have_numba

LARGEST_WHOLE = 128  # rows of a matrix that one Triton program can hold; larger ones are done in tiles
have_triton = importlib.util.find_spec("triton") is not None
ON_GPUS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Backend:
    """What computes Sinkhorn for tensors like these, and why."""

    device: str
    tensors: str
    name: str  # numba, triton or torch
    why: str


class Backends(tuple[Backend, ...]):
    """Shown as a table."""

    def __repr__(self) -> str:
        rows = [("device", "tensors", "backend", "why"), *((b.device, b.tensors, b.name, b.why) for b in self)]
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in rows
        )


def backends() -> Backends:
    """What Sinkhorn would be computed with on this machine, and why; on a GPU the kernels are tried for it."""
    floats = "float32, float64 (16 bits: in float32)"
    found = [Backend("cpu", floats, *choose(torch.device("cpu"), torch.float32, 10))]
    devices = [f"cuda:{k}" for k in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    for device in devices:
        for n, size in ((10, "small"), (100, "middle"), (LARGEST_WHOLE + 1, f"n > {LARGEST_WHOLE}")):
            found.append(Backend(device, f"float32 (16 bits), {size}", *choose(torch.device(device), torch.float32, n)))
        found.append(Backend(device, "float64", *choose(torch.device(device), torch.float64, 10)))
    if not devices:
        found.append(
            Backend("cuda", "any", *(_without_triton() or ("triton", "installed; not tried, there is no GPU here")))
        )
    return Backends(found)


def chosen_at_run(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a graph holds the operator for GPUs, which chooses when it runs: the device may not be there when the graph is made."""
    return device.type == "cuda" and dtype in ON_GPUS and have_triton


@functools.lru_cache(4096)
def choose(device: torch.device, dtype: torch.dtype, n: int) -> tuple[str, str]:
    """numba, triton or torch, and why."""
    if device.type == "cpu":
        return (
            ("numba", "kernels for this processor")
            if have_numba
            else ("torch", "numba is not installed or switched off")
        )
    if device.type != "cuda":  # which is also what torch calls AMD's
        return "torch", f"there are no kernels for {device.type}"
    if dtype not in ON_GPUS:
        return "torch", "the Triton kernels compute in float32"
    if nothing := _without_triton():
        return nothing
    try:
        from ._sinkhorn.in_triton.trust import why_not
    except Exception as error:  # a triton that does not fit this torch or Python
        return "torch", f"triton cannot be used: {' '.join(str(error).split())[:200]}"
    trouble = why_not(device, n)
    return ("torch", trouble) if trouble else ("triton", "agreed with plain torch on a small case")


def _without_triton() -> tuple[str, str] | None:
    there = importlib.util.find_spec("triton") is not None
    return None if there else ("torch", "triton is not installed: pip install unshuffle[triton]")
