"""Compiles every Triton kernel ahead of time, without a device: ``python compile_kernels.py cuda 80`` or ``hip gfx942``.

Prints one line a kernel: its name, dtype, block, and the bytes of machine code.
"""

from __future__ import annotations

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unshuffle.operators._sinkhorn.in_triton import launch, tiled, whole

FLOATS = {"potentials": "*fp64", "f_bar": "*fp32", "g_bar": "*fp32", "to_beta": "*fp32", "logits": "*fp32", "out": "*fp32",
          "weight": "*fp32", "logits_then_to_scores": "*fp32", "scale": "fp32", "sign": "fp32",
          "alike": "fp32", "log_high": "fp32", "log_low": "fp32"}  # fmt: skip
GIVEN = ("scores", "beta", "soft", "grad", "to_scores")  # in the user's dtype
FLAGS = {"WITH_BETA": True, "NOISY": True, "TO_BETA": "field"}


def compiled(kernel, dtype: str, blocks: launch.Blocks, target: GPUTarget, **flags):
    side = blocks.side
    sizes = {"SIDE": side, "TOGETHER": blocks.together, "ROWS": side, "COLUMNS": side, "OWN": side, "OTHER": side}
    values = {name: value for name, value in (sizes | FLAGS | flags).items() if name in kernel.arg_names}
    types = {name: FLOATS.get(name, f"*{dtype}" if name in GIVEN else "i32") for name in kernel.arg_names}
    signature = {name: "constexpr" if name in values else types[name] for name in kernel.arg_names}
    ones = {(kernel.arg_names.index(name),): 1 for name in ("scores_j", "grad_j") if name in kernel.arg_names}
    signature |= {kernel.arg_names[place]: "constexpr" for (place,) in ones}  # as the launcher does with ones
    source = ASTSource(kernel, signature, {(kernel.arg_names.index(k),): v for k, v in values.items()} | ones)
    return triton.compile(source, target=target, options=launch.options(blocks))


def everything(lanes: int):
    for n in (4, 16, 50, 128):
        for kernel in (whole.forward, whole.backward):
            yield kernel, {4: "fp32", 16: "bf16", 50: "fp16", 128: "fp32"}[n], launch.blocks_for(n, lanes)
    for kernel in (tiled.write_logits, tiled.half_step, tiled.write_soft, tiled.pull, tiled.write_gradient):
        yield kernel, "bf16", launch.blocks_for(300, lanes)


if __name__ == "__main__":
    name, architecture = sys.argv[1], sys.argv[2]
    target = GPUTarget(name, int(architecture) if name == "cuda" else architecture, 32 if name == "cuda" else 64)
    for kernel, dtype, blocks in everything(target.warp_size):
        binary = compiled(kernel, dtype, blocks, target).asm["cubin" if name == "cuda" else "hsaco"]
        print(kernel.__name__, dtype, *blocks, len(binary))
