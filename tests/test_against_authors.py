"""The comparison with the authors' code, on a repository of the same shape that is written here, and on none."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "against_authors.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs the source tree")

OPERATORS = """
import torch
from scipy.optimize import linear_sum_assignment

def log_sinkhorn_norm(scores, times):
    P = scores.double().exp()
    for _ in range(times):
        P = P / P.sum(-1, keepdim=True)
        P = P / P.sum(-2, keepdim=True)
    return P.to(scores)

def gumbel_sinkhorn(scores, tau, times):
    uniform = torch.rand_like(scores)
    return log_sinkhorn_norm((scores - torch.log(-torch.log(uniform))) / tau, times)

def gumbel_matching(scores, noise):
    P = torch.zeros_like(scores)
    for k, one in enumerate(scores.numpy()):
        P[k][linear_sum_assignment(-one)] = 1
    return P
"""
TRAIN = """
import torch
from number_utils import NumberGenerator
from scipy.stats import kendalltau
from torch.utils.data import DataLoader
from utils import gumbel_sinkhorn_ops as ops

def annealed_tau(cfg, epoch):
    return 1.5 - epoch / 149

def adaptive_tau_matrix(scores, tau, cfg):
    Q = ops.log_sinkhorn_norm(scores.detach() / tau, cfg.n_sink_iter)
    H = [-(Q * Q.clamp(min=1e-9).log()).sum(d, keepdim=True) / torch.log(torch.tensor(Q.shape[-1])) for d in (-1, -2)]
    rows, columns = (1 + 0.1 * ((h - 0.7) / 0.3).clamp(0, 1) for h in H)
    return tau * (rows * columns if cfg.tau_adapt_combine == "prod" else (rows + columns) / 2).clamp(1, 1.1)

def kendall_tau(guess, truth):
    return torch.tensor([kendalltau(a.argsort(), b.argsort()).statistic for a, b in zip(guess, truth)])

class Net(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first, self.second = torch.nn.Conv1d(1, 64, 1), torch.nn.Conv1d(64, n, 1)
    def forward(self, x):
        return self.second(self.first(x).relu()).mT

def build_model(cfg):
    return Net(cfg.n_numbers)

def train(cfg):
    torch.manual_seed(cfg.seed)
    net = build_model(cfg)
    adam = torch.optim.Adam(net.parameters(), cfg.lr)
    for x, _, _ in DataLoader(NumberGenerator(), cfg.batch_size, shuffle=True, drop_last=True):
        scores = net(x[:, None])
        tau = adaptive_tau_matrix(scores, annealed_tau(cfg, 0), cfg)
        loss = 0
        for _ in range(cfg.n_samples):
            y = torch.einsum("bij,bi->bj", ops.gumbel_sinkhorn(scores, tau, cfg.n_sink_iter), x)
            loss = loss + (y[:, :-1] - y[:, 1:]).relu().square().mean() / cfg.n_samples
        adam.zero_grad(); loss.backward(); adam.step()
    return net, None
"""


def compare(repository: Path) -> str:
    command = [sys.executable, str(SCRIPT), str(repository), "--n", "6", "--steps", "3", "--batch", "32"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout


@pytest.fixture
def repository(tmp_path) -> Path:
    for name, text in (("utils/gumbel_sinkhorn_ops.py", OPERATORS), ("number_sorting/train.py", TRAIN)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "utils" / "__init__.py").touch()
    return tmp_path


def test_functions_steps_and_an_epoch_are_compared_with_the_same_noise(repository):
    said = compare(repository)
    rows = {cells[1].strip(): float(cells[2]) for line in said.splitlines()[2:] if len(cells := line.split("|")) == 5}
    assert rows.pop("schedule of the text") == pytest.approx(0.26, abs=0.01)
    assert set(rows) >= {
        "Sinkhorn",
        "Gumbel-Sinkhorn",
        "field, mean",
        "field, product",
        "one step",
        "an epoch of 3 steps",
    }
    assert all(difference < (2e-2 if "step" in what else 2e-6) for what, difference in rows.items()), said
    assert "times faster" in said


def test_without_the_repository_one_sentence_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out.startswith(
        f"{tmp_path} holds no number_sorting/train.py: not the authors' repository"
    )
