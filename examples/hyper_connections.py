"""Hyper-connections: four residual streams, mixed in every layer by a doubly stochastic 4 x 4 matrix per token.

Run: python examples/hyper_connections.py [FOLDER FOR PICTURES] [--published] [--compile]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import unshuffle as us

S, WIDTH, T, STEPS = 4, 16, 20, 120  # S streams


def published(scores: Tensor, eps: float = 1e-6) -> Tensor:
    """As the published kernels do it: softmax of rows + eps, columns, then T - 1 times rows and columns."""
    P = scores.softmax(-1) + eps
    for t in range(T):
        P = P / (P.sum(-1, keepdim=True) + eps) if t else P
        P = P / (P.sum(-2, keepdim=True) + eps)
    return P


class Layer(nn.Module):
    """x <- M x + out f(in x), with M (S x S), in and out (S numbers each) made from the token itself."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Sequential(nn.Flatten(), nn.LayerNorm(S * WIDTH), nn.Linear(S * WIDTH, S * (S + 2)))
        self.f = nn.Sequential(nn.Linear(WIDTH, 64), nn.SiLU(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:  # (tokens, S, WIDTH)
        gates = self.gates(x).unflatten(1, (S, S + 2))
        scores = gates[..., :S] + 3 * torch.eye(S)  # at first every stream goes on by itself
        M = published(scores) if "--published" in sys.argv else us.sinkhorn(scores, T)
        into, out = gates[..., S:].sigmoid().split(1, dim=-1)
        return M @ x + 2 * out * self.f((into * x).mean(1, keepdim=True))


def spirals(count: int) -> tuple[Tensor, Tensor]:
    which, angle = torch.randint(2, (count,)), 10 * torch.rand(count).sqrt()
    turn = angle + torch.pi * which
    return torch.stack([turn.cos(), turn.sin()], 1) * angle.unsqueeze(1) / 5 + 0.03 * torch.randn(count, 2), which


torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(2, S * WIDTH), nn.Unflatten(1, (S, WIDTH)), *(Layer() for _ in range(4)))
model = nn.Sequential(layers, nn.Flatten(), nn.Linear(S * WIDTH, 2))
run = torch.compile(model, fullgraph=True) if "--compile" in sys.argv else model
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(STEPS):  # on which of two spirals is the point?
    points, which = spirals(256)
    loss = nn.functional.cross_entropy(run(points), which)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

with torch.no_grad():
    points, which = spirals(2000)
    sure = model(points).softmax(1)[:, 1]
    scores = layers[-1].gates(layers[:-1](points)).unflatten(1, (S, S + 2))[..., :S] + 3 * torch.eye(S)
M = us.sinkhorn(scores, T)
right, off = ((sure > 0.5) == which).float().mean().item(), (M - published(scores)).abs().max().item()
print(f"loss {loss.item():.3f}; {right:.1%} of new points right; the published M differs from ours by {off:.0e}")

figure = Figure(figsize=(7, 3.4), layout="constrained")
left, end = figure.subplots(1, 2)
left.scatter(*points.T.numpy(), c=sure.numpy(), cmap="coolwarm", s=4)
end.imshow(M.mean(0).numpy(), cmap="magma", vmin=0, vmax=1)
left.set(title="which spiral", xticks=[], yticks=[], aspect="equal")
end.set(title="M of the last layer, mean of tokens", xlabel="stream", ylabel="stream", yticks=range(S))
folder = Path(next((a for a in sys.argv[1:] if a[:2] != "--"), "pictures"))
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "hyper_connections.png", dpi=100, bbox_inches="tight")
