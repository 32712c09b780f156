"""The GPU kernels without a GPU: run in Triton's interpreter, and compiled ahead of time for three targets (``make triton``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton: `make triton` installs it and runs these tests")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("run by `make triton`, which sets TRITON_INTERPRET=1", allow_module_level=True)

import triton
import triton.language as tl
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import opcheck

import unshuffle as us
from unshuffle.operators._sinkhorn import engine, on_gpu
from unshuffle.operators._sinkhorn.block import WHOLE, Block
from unshuffle.operators._sinkhorn.engine import perturbed_sinkhorn
from unshuffle.operators._sinkhorn.in_triton import entries, launch, trust
from unshuffle.operators._sinkhorn.noise import SILENT, Noise, gumbel, rows_at_once

CPU = torch.device("cpu")
TILES = launch.Blocks(32, 0, 4)
STREAM = Noise(1.0, (3_234_567_891, 987_654_321), 5, 2**31 + 7)


def scores_of(n: int, batch: int, spread: float = 3.0, masked: bool = False) -> Tensor:
    scores = spread * torch.randn(batch, n, n)
    allowed = (torch.rand(batch, n, n) < 0.7) | torch.eye(n, dtype=torch.bool)
    return scores.masked_fill(~allowed, -torch.inf) if masked else scores


def compare(
    scores: Tensor, beta: Tensor | None = None, samples: int | None = None, noise: Noise = SILENT, iterations: int = 5,
    blocks: launch.Blocks | None = None, bound: float = 1e-6, exact: torch.dtype = torch.float64, real: Block = WHOLE,
) -> None:  # fmt: skip
    """Values and gradients against the kernels of the CPU on the same (rounded) inputs; gradients relative to the largest."""
    P, potentials = launch.forward(scores, beta, samples, noise, iterations, real, blocks)
    grad = torch.randn(P.shape).to(P.dtype)
    found = (P, *launch.backward(scores, beta, samples, noise, potentials, grad, beta is not None, real, blocks))
    inputs = [x.to(exact).requires_grad_() for x in (scores, beta) if x is not None]
    Q = perturbed_sinkhorn(inputs[0], *inputs[1:], samples=samples, noise=noise, iterations=iterations, block=real)
    expected = (Q.detach(), *torch.autograd.grad(Q, inputs, grad.to(exact)))
    for ours, theirs in zip(found, expected, strict=False):
        assert ours.shape == theirs.shape
        assert ours.dtype == scores.dtype
        rounding = torch.finfo(ours.dtype).eps if ours.dtype.itemsize == 2 else 0.0
        assert (ours.to(exact) - theirs).abs().max() <= max(bound, rounding) * theirs.abs().max().clamp_min(1)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 10, 16, 17, 33, 64])
def test_values_and_gradient_are_those_of_the_cpu(n):
    compare(scores_of(n, 2 if n > 16 else 5))


def test_a_batch_that_fills_several_programs():
    compare(scores_of(4, 150), iterations=20)


@pytest.mark.parametrize("blocks", [None, TILES], ids=["whole", "tiled"])
@pytest.mark.parametrize("iterations", [1, 6])
def test_masks(blocks, iterations):
    compare(scores_of(35 if blocks else 12, 2, masked=True), iterations=iterations, blocks=blocks)


@pytest.mark.parametrize("blocks", [None, TILES], ids=["whole", "tiled"])
@pytest.mark.parametrize("shape", [(), (3, 1, 1), (9, 9), (3, 9, 9), (9, 1)], ids=str)
def test_every_shape_of_beta_with_samples_and_noise(shape, blocks):
    beta = 0.5 + torch.rand(shape)
    compare(scores_of(9, 3), beta, 2, STREAM, iterations=3, blocks=blocks, exact=torch.float32, bound=3e-6)


@pytest.mark.parametrize("blocks", [None, TILES], ids=["whole", "tiled"])
@pytest.mark.parametrize("alike", [1, 6])
def test_dummies_have_no_noise_and_the_last_stand_for_several(alike, blocks):
    scores, beta = scores_of(9, 3), 0.5 + torch.rand(3, 9, 9)
    compare(scores, blocks=blocks, real=Block(8, 6, alike))
    compare(
        scores, beta, 2, STREAM, iterations=3, blocks=blocks, exact=torch.float32, bound=3e-6, real=Block(6, 8, alike)
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("blocks", [None, TILES], ids=["whole", "tiled"])
def test_half_precision_is_float32_inside(dtype, blocks):
    beta = (0.5 + torch.rand(2, 1, 1)).to(dtype)
    compare(scores_of(7, 2, masked=True).to(dtype), beta, iterations=4, blocks=blocks)


@pytest.mark.parametrize("blocks", [None, TILES], ids=["whole", "tiled"])
def test_scores_of_a_network_in_training(blocks):
    """Thousands wide, with weak columns: where float32 potentials would be off by 1e-4."""
    scores = scores_of(34, 2, spread=600.0) + 900 * torch.randn(34) - 500
    compare(scores, blocks=blocks, iterations=10)


def test_tiles_of_a_matrix_that_is_no_multiple():
    compare(scores_of(65, 1), torch.tensor(1.3), iterations=2, blocks=TILES, bound=1e-5)  # beta sums 4,225 terms


def test_strided_scores_and_gradients():
    scores = scores_of(6, 4).transpose(-1, -2)[::2]
    P, potentials = launch.forward(scores, None, None, SILENT, 3)
    Q, same = launch.forward(scores.contiguous(), None, None, SILENT, 3)
    assert torch.equal(P, Q)
    ones = torch.ones(()).expand(P.shape)
    back, _ = launch.backward(scores, None, None, SILENT, potentials, ones)
    assert torch.equal(back, launch.backward(scores, None, None, SILENT, same, ones.contiguous())[0])
    assert back.abs().max() < 1e-6  # the columns sum to 1 whatever the scores


@triton.jit
def _noise(bits, values, number, n, rows_at_once, key_0, key_1, SIZE: tl.constexpr):
    entry = tl.arange(0, SIZE)
    drawn = entries.random_bits(number + entry * 0, entry, n, n, rows_at_once, key_0, key_1)
    tl.store(bits + entry, drawn, mask=entry < n * n)
    tl.store(values + entry, entries.gumbel(drawn), mask=entry < n * n)


@pytest.mark.parametrize("n", [1, 5, 33, 50])  # 50: three groups of rows, the last one shorter
def test_noise_is_that_of_the_cpu_bit_for_bit(n):
    bits, values = torch.empty(n * n, dtype=torch.int32), torch.empty(n * n)
    number, key = 3_000_000_011, STREAM.key
    words = (launch.signed(number), n, rows_at_once(n), *map(launch.signed, key))
    _noise[(1,)](bits, values, *words, SIZE=triton.next_power_of_2(n * n))
    expected = gumbel(torch.tensor([number]), n, n, key, torch.float64).flatten()
    w = -(-(-expected).exp()).expm1()
    assert torch.equal(bits, (w * 2**31 - 0.5).round().int())
    likely = w < 0.99  # beyond, float32 has few digits of 1 - w left, in the kernels of the CPU as well
    assert (values - expected)[likely].abs().max() < 2e-6


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, which interprets, speaks of NaN; a GPU does not
def test_what_is_not_a_number_stays_in_its_matrix():
    scores = scores_of(4, 6)
    scores[1, 0, 0], scores[2, 3, 1], scores[3, 2], scores[4, :, 1] = torch.nan, torch.inf, -torch.inf, -torch.inf
    P, _ = launch.forward(scores, None, None, SILENT, 3)
    assert P[1:5].isnan().flatten(1).any(1).all()
    assert P[0].isfinite().all()
    assert P[5].isfinite().all()


@pytest.mark.parametrize("n", [2, 20, 200])
def test_trusted_after_a_small_case(n):
    assert trust.why_not(CPU, n) is None


def test_not_trusted_when_wrong_with_one_warning(monkeypatch):
    def wrong(*arguments):
        soft, potentials = right(*arguments)
        return soft + 0.01, potentials

    right = launch.forward
    monkeypatch.setattr(launch, "forward", wrong)
    trust._tried.cache_clear()
    with pytest.warns(UserWarning, match="not used on cpu .*off by 0.0"):
        assert trust.why_not(CPU, 4)
    assert "off by" in (trust.why_not(CPU, 3) or "")  # the same kernel: known by now
    monkeypatch.setattr(launch, "forward", lambda *_: 1 / 0)
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        trust.why_not(CPU, 30)
    trust._tried.cache_clear()


@pytest.mark.parametrize("target", ["cuda 80", "cuda 90", "hip gfx942"])
def test_compiles_ahead_of_time(target, tmp_path):
    command = [sys.executable, str(Path(__file__).parent / "compile_kernels.py"), *target.split()]
    compiler = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=compiler)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 13
    assert all(int(line.split()[-1]) > 1000 for line in lines)


@pytest.fixture
def triton_for_all(monkeypatch):
    """As on a GPU, but on the CPU."""
    monkeypatch.setattr(engine, "choose", lambda *_: ("triton", "as asked"))


def test_operators_through_triton(triton_for_all, monkeypatch):
    scores = scores_of(6, 3, masked=True)
    inputs = [scores.requires_grad_(), (0.5 + torch.rand(3, 6, 6)).requires_grad_()]

    def run() -> tuple[Tensor, ...]:
        P = us.gumbel_sinkhorn(*inputs, samples=2, noise=0.5, iterations=4, generator=torch.Generator().manual_seed(1))
        return P.detach(), *torch.autograd.grad(P.square().sum(), inputs)

    found = run()
    monkeypatch.undo()
    for ours, theirs in zip(found, run(), strict=True):
        assert (ours - theirs).abs().max() < 1e-5


def test_the_operator_of_graphs(monkeypatch):
    """What torch.compile calls on a GPU: the same kernels, kept to torch's rules for operators."""
    monkeypatch.setattr(on_gpu, "choose", lambda *_: ("triton", "as asked"))
    inputs = [scores_of(6, 3, masked=True).requires_grad_(), (0.5 + torch.rand(3, 1, 1)).requires_grad_()]
    key = torch.tensor([STREAM.key[0], 7])
    asked = (*inputs, key, 2, 0.5, 1, 9, 0, 0, 1, 4)
    opcheck(torch.ops.unshuffle.sinkhorn_on_gpu.default, asked)
    found = torch.ops.unshuffle.sinkhorn_on_gpu(*asked)[0]
    noise = Noise(0.5, (STREAM.key[0], 7), 1, 9)
    expected = perturbed_sinkhorn(*inputs, samples=2, noise=noise, iterations=4)
    assert (found - expected).abs().max() < 1e-5
    ours, theirs = (torch.autograd.grad(P.square().sum(), inputs) for P in (found, expected))
    assert all((a - b).abs().max() < 1e-5 for a, b in zip(ours, theirs, strict=True))


def test_second_derivatives_go_through_the_plain_loop(triton_for_all, monkeypatch):
    scores, weights = scores_of(5, 2).requires_grad_(), torch.randn(2, 5, 5)

    def run() -> Tensor:
        (gradient,) = torch.autograd.grad((us.sinkhorn(scores, 3) * weights).sum(), scores, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), scores)[0]

    found = run()
    monkeypatch.undo()
    assert (found - run()).abs().max() < 1e-4 * found.abs().max()


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Anomaly Detection")
def test_values_are_looked_at_when_anomalies_are_asked_for(triton_for_all):
    scores = scores_of(4, 2)
    scores[1, 2, 3] = torch.nan
    assert us.sinkhorn(scores)[0].isfinite().all()
    with torch.autograd.detect_anomaly(), pytest.raises(us.BadInput, match="row 2, column 3 of matrix 1 is NaN"):
        us.sinkhorn(scores)
    scores[1, 2] = -torch.inf
    with torch.autograd.detect_anomaly(), pytest.raises(us.BadInput, match="row 2 of matrix 1"):
        us.sinkhorn(scores)


def test_nothing_waits_for_the_device(monkeypatch):
    """On tensors that stand for others every look at a value raises; the kernels themselves are left out."""
    monkeypatch.setattr(launch, "_run", lambda *_, **__: None)
    with FakeTensorMode():
        for n in (10, 200):
            scores, beta = torch.empty(3, n, n), torch.empty(3, 1, 1)
            P, potentials = launch.forward(scores, beta, 2, STREAM, 4)
            to_scores, to_beta = launch.backward(scores, beta, 2, STREAM, potentials, P, True)
            assert (to_scores.shape, to_beta.shape) == (scores.shape, beta.shape)  # pyright: ignore[reportOptionalMemberAccess]
