"""A convolution of many small pictures of which only the largest of every 2 x 2 values is kept, a few pictures at a time.

A puzzle of 178 pixels a side has 25 tiles whose 64 maps hold two million numbers, a batch of 32 puzzles 250 MB, which a network made
of single layers writes and reads some ten times. Here the maps of a few tiles stay in the cache: what is written is their pooled
quarter and which of the four it was. The gradient puts these back in place, again a few tiles at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..compute.jit import have_numba, njit
from ..compute.threads import in_chunks
from ..compute.transforms import symbolic

AT_ONCE = 16  # pictures; of 35 x 35 pixels, 64 maps of these are 5 MB
NONE = np.uint8(4)  # all four are negative


def at_once(pictures: Tensor, convolution: torch.nn.Conv2d) -> bool:
    """Whether `pooled` can do it: on a CPU with numba, in float32, and nobody asks for the gradient of the pictures."""
    given = (pictures, convolution.weight)
    plain = not symbolic(*given) and all(t.dtype == torch.float32 and t.device.type == "cpu" for t in given)
    return have_numba and plain and not pictures.requires_grad and not torch.is_autocast_enabled("cpu")


def pooled(
    pictures: Float[Tensor, "pictures channels height width"], convolution: torch.nn.Conv2d
) -> Float[Tensor, "pictures high wide maps"]:
    """Convolution, ReLU and the maximum of 2 x 2 (an odd last row or column alone); maps last."""
    return _Pooled.apply(pictures, convolution.weight, convolution.bias, convolution.padding)


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pictures: Tensor, weight: Tensor, bias: Tensor, padding: tuple[int, int]) -> Tensor:
        count, _, height, width = pictures.shape
        largest = torch.empty(count, (height + 1) // 2, (width + 1) // 2, len(weight))
        which = torch.empty(largest.shape, dtype=torch.uint8)
        # maps last: their pooling is a loop over neighbouring numbers
        kernel = weight.contiguous(memory_format=torch.channels_last)
        for part, to, at in zip(*(t.split(AT_ONCE) for t in (pictures, largest, which)), strict=True):
            part = part.contiguous(memory_format=torch.channels_last)
            maps = torch.nn.functional.conv2d(part, kernel, bias, padding=padding).permute(0, 2, 3, 1).contiguous()
            arrays = maps.numpy(), to.numpy(), at.numpy()
            in_chunks(lambda low, high, a=arrays: _pool(*(x[low:high] for x in a)), len(part), maps.numel())
        ctx.save_for_backward(pictures, kernel, which)
        ctx.padding = padding
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        pictures, kernel, which = ctx.saved_tensors
        height, width = pictures.shape[2:]
        back = torch.empty(min(AT_ONCE, len(pictures)), height, width, kernel.shape[0])
        to_weight, to_bias = torch.zeros_like(kernel), torch.zeros(kernel.shape[0])
        parts = zip(*(t.split(AT_ONCE) for t in (pictures, gradients[0].contiguous(), which)), strict=True)
        for part, gradient, at in parts:
            maps = back[: len(part)]
            arrays = gradient.numpy(), at.numpy(), maps.numpy()
            in_chunks(lambda low, high, a=arrays: _put_back(*(x[low:high] for x in a)), len(part), maps.numel())
            found = torch.ops.aten.convolution_backward(
                maps.permute(0, 3, 1, 2),
                part.contiguous(memory_format=torch.channels_last),
                kernel,
                [kernel.shape[0]],
                [1, 1],
                ctx.padding,
                [1, 1],
                False,
                [0, 0],
                1,
                [False, True, True],
            )
            to_weight += found[1]
            to_bias += found[2]
        return None, to_weight, to_bias, None


@njit
def _pool(maps, largest, which):
    """The largest of each four and its number, 0 to 3 in reading order; 0 and `NONE` where all are negative."""
    count, height, width, channels = maps.shape
    for picture in range(count):
        for row in range(largest.shape[1]):
            for column in range(largest.shape[2]):
                top, left = 2 * row, 2 * column
                best, place = largest[picture, row, column], which[picture, row, column]
                for c in range(channels):
                    best[c], place[c] = np.float32(0.0), NONE
                for k in range(4):
                    i, j = top + k // 2, left + k % 2
                    if i < height and j < width:
                        line = maps[picture, i, j]
                        for c in range(channels):
                            larger = line[c] > best[c]
                            best[c] = line[c] if larger else best[c]
                            place[c] = np.uint8(k) if larger else place[c]


@njit
def _put_back(gradient, which, maps):
    """The gradient of each largest value where it came from, 0 elsewhere."""
    count, height, width, channels = maps.shape
    for picture in range(count):
        for i in range(height):
            for j in range(width):
                k = np.uint8(2 * (i % 2) + j % 2)
                line = maps[picture, i, j]
                value, place = gradient[picture, i // 2, j // 2], which[picture, i // 2, j // 2]
                for c in range(channels):
                    line[c] = value[c] if place[c] == k else np.float32(0.0)
