"""Models with a layer, compiled as one graph; run by test_compiled.py in a process of its own: torch cannot trace the shape checks of the test run.

python tests/compiled_models.py aot_eager|inductor
"""

import copy
import sys

import torch
import torch._dynamo
from torch import nn

import unshuffle as us
from unshuffle.operators._sinkhorn import engine

RAMP = us.Anneal(1.0, 2.0, epochs=30)


class Sorter(nn.Module):
    def __init__(self, relax: nn.Module) -> None:
        super().__init__()
        self.scores, self.relax = nn.Linear(2, 6), relax

    def forward(self, items):
        scores = 3 * self.scores(items).tanh()
        given = scores[..., 0] if isinstance(self.relax, (us.NeuralSort, us.SoftSort)) else scores
        return us.reorder(self.soft(given), items).square().sum() / len(items)

    def soft(self, scores):
        return self.relax(scores)


class Together(nn.Module):
    """Several layers in one graph: a graph for each takes longer and shows no more."""

    def __init__(self, relaxes: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(map(Sorter, relaxes))

    def forward(self, items):
        return sum(part(items) for part in self.parts)


class Twice(Sorter):
    """Two calls of one layer, so that noise which the compiler took for the same would show, and the bare operator."""

    def soft(self, scores):
        return self.relax(scores) - 0.3 * self.relax(scores).square() + us.sinkhorn(scores.sin(), tolerance=1e-3)


def step(model: nn.Module, run, items: torch.Tensor, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    model.zero_grad()
    loss = run(items)
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def same_as_eager(model: nn.Module, backend: str, dynamic: bool | None = True) -> None:
    """Forward, backward and noise, batches of any size, an epoch after the other: one graph, or two where torch finds out by
    itself that sizes change (``None``), of the first size and of any."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plain = copy.deepcopy(model)  # a layer that is led has a state, and each goes on with its own
    fast = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    for epoch in range(4):
        us.set_epoch(fast, epoch)
        us.set_epoch(plain, epoch)
        items = torch.randn(4 + epoch, 6, 2)
        found, expected = step(model, fast, items, epoch), step(plain, plain, items, epoch)
        # The operators give the same bits (below); inductor sums what is around them in another order, and eager's own
        # rounding is as large: 1e-7 of the largest terms, which are 17.
        size = max(float(x.abs().max()) for x in expected)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * max(size, 1.0))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert graphs == (1 if dynamic else 2), f"{graphs} graphs for {model}"


backend = sys.argv[1]
everything = [
    us.GumbelSinkhorn(RAMP, us.LocalTemperature(max_boost=0.5)),
    us.StraightThrough(us.GumbelSinkhorn(RAMP, us.LocalTemperature(us.DegreeViolation(), 0.5, us.Product()))),
    us.StraightThrough(us.GumbelSinkhorn(RAMP, us.LearnedTemperature(), keep=4)),
    us.GumbelSinkhorn(RAMP, us.LocalTemperature(), reject=nn.Parameter(torch.tensor(0.2))),
    us.GumbelSinkhorn(us.EntropyTarget(0.9, 0.5, epochs=4), reject=0.1),
    us.GumbelSinkhorn(us.EntropyTarget(0.9, 0.5, epochs=4, each=us.EachRow())),
    us.GumbelSinkhorn(us.LearnedTarget()),
    us.ColumnSoftmax(RAMP),
    us.NeuralSort(RAMP),
    us.SoftSort(RAMP),
    us.OT4P(RAMP),
]
torch.manual_seed(0)
same_as_eager(Twice(everything[0]), backend, dynamic=None if backend == "aot_eager" else True)
if backend == "aot_eager":
    same_as_eager(Together(everything[1:]), backend)

LOCAL, SORT = us.LocalTemperature(max_boost=0.5), us.SoftSort()


def both(scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The operators alone, without and with noise."""
    return us.sinkhorn(scores), us.gumbel_sinkhorn(scores, 1.5, samples=2, local=LOCAL)


def gradient(scores: torch.Tensor) -> torch.Tensor:
    """Inside a graph it is that of torch's own operations, iteration after iteration: two show the same as ten, and sooner."""
    return torch.func.grad(lambda s: us.sinkhorn(s, 2).square().sum())(scores)


def orders(scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
    order = us.assign(scores, reject=0.1)
    return us.to_matrix(order), us.inverse(order), SORT.decode(scores)


def told(run, scores: torch.Tensor) -> bool:
    """Whether the graph of such scores says that there is NaN."""
    try:
        run(torch.full_like(scores, torch.nan, requires_grad=scores.requires_grad))
    except us.BadInput as error:
        return "is NaN" in str(error)
    return False


# bit for bit, forward and backward, in a graph of any batch size from the first
torch._dynamo.reset()
run = torch.compile(both, backend=backend, fullgraph=True, dynamic=True)
for batch in (4, 9):
    scores, results = (3 * torch.randn(batch, 12, 12)).requires_grad_(), []
    for call in (run, both):
        torch.manual_seed(batch)
        soft = call(scores)
        results.append((*soft, *torch.autograd.grad(soft, scores, [P.detach().sin() for P in soft])))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True)), "other bits"
assert told(run, scores), "NaN went through a compiled graph"

if backend == "aot_eager":
    same = torch.compile(us.sinkhorn, backend=backend, fullgraph=True)
    scores = 3 * torch.randn(9, 12, 12)
    torch.testing.assert_close(same(scores), us.sinkhorn(scores), rtol=0, atol=0)
    assert told(same, scores), "NaN went through a graph of one size"
    found = torch.compile(gradient, backend=backend, fullgraph=True)(scores)
    torch.testing.assert_close(found, gradient(scores), rtol=0, atol=1e-6)
    half = torch.compile(us.GumbelSinkhorn(RAMP), backend=backend, fullgraph=True)
    torch.manual_seed(1)
    found = half(scores.bfloat16())
    torch.manual_seed(1)
    torch.testing.assert_close(found, us.GumbelSinkhorn(RAMP)(scores.bfloat16()), rtol=0, atol=0)
    for found, expected in zip(
        torch.compile(orders, backend=backend, fullgraph=True)(scores), orders(scores), strict=True
    ):
        assert torch.equal(found, expected), "another order"
    fresh = us.GumbelSinkhorn().eval()  # finds how sharp to be, in as many steps as it takes
    found = torch.compile(fresh, backend=backend, fullgraph=True)(scores)
    torch.testing.assert_close(found, fresh(scores), rtol=0, atol=1e-6)
    drawn = torch.compile(us.GumbelSinkhorn(RAMP), backend=backend, fullgraph=True)
    try:
        drawn(scores, generator=torch.Generator())
    except torch._dynamo.exc.Unsupported as error:
        assert "torch.compile knows no torch.Generator: leave it out" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a generator went into a graph")
    engine.chosen_at_run = lambda *_: True  # as on a GPU: the operator for it, which here finds plain torch
    same_as_eager(Sorter(us.GumbelSinkhorn(RAMP, us.LearnedTemperature())), backend)
    engine.chosen_at_run = lambda *_: False
    engine.have_numba = False  # as on other devices: torch's own operations, traced
    same_as_eager(Sorter(us.GumbelSinkhorn(RAMP, iterations=2)), backend)
    torch._dynamo.reset()
    scores = scores[:2, :4, :4]
    found = torch.compile(gradient, backend=backend, fullgraph=True)(scores)
    torch.testing.assert_close(found, gradient(scores), rtol=0, atol=1e-6)
