"""Networks: published sizes, any tile size, equivariance, and the published maps against plain definitions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unshuffle.errors import BadInput
from unshuffle.networks import (
    ContextScorer,
    ItemScorer,
    KeyScorer,
    ScatteringAttention,
    TileScorer,
    TourScorer,
    UnrolledAnnealer,
    band_passes,
    count_parameters,
    diffusions,
    lazy_walks,
    standardised,
    tiles,
)
from unshuffle.networks import items as of_items
from unshuffle.operators import pooled


def items(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(make):
    torch.manual_seed(0)
    return make()


NETWORKS = {
    "items": (lambda: ItemScorer(7, features=3), (3,)),
    "items, standardised": (lambda: ItemScorer(7, features=3, standardise=True), (3,)),
    "tiles": (lambda: TileScorer(7, (3, 4, 5)), (60,)),
    "tour": (lambda: TourScorer(7, hidden=8), (2,)),
    "stronger tour": (lambda: TourScorer.stronger(7, hidden=8, layers=3), (2,)),
    "unrolled annealer": (lambda: UnrolledAnnealer((2, 2, 2)), (2,)),
    "context": (lambda: ContextScorer(3, width=16, heads=2), (3,)),
    "context of tiles": (
        lambda: ContextScorer(9, width=16, heads=2, encoder=TileScorer(9, (3, 4, 5), channels=4)),
        (60,),
    ),
}
every = pytest.mark.parametrize(("make", "features"), NETWORKS.values(), ids=NETWORKS)


@every
def test_shapes_and_gradients(make, features):
    network = seeded(make)
    for batch in ((), (2,), (2, 3)):
        scores = network(items(*batch, 7, *features))
        assert scores.shape == (*batch, 7, 7)
    scores.square().sum().backward()
    without = [name for name, p in network.named_parameters() if p.grad is None]
    assert without == []  # nothing idle: distributed training stops at a parameter without gradient


@every
def test_shuffled_items_give_shuffled_rows(make, features):
    network, x = seeded(make), items(2, 7, *features)
    if isinstance(network, TourScorer):  # attention starts at zero as published; move it off its symmetric point
        for layer in network.layers:
            nn.init.normal_(layer.attention)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(network(x[:, order]), network(x)[:, order], atol=1e-5, rtol=1e-4)


@every
def test_lists_of_a_batch_do_not_see_each_other(make, features):
    network, x = seeded(make), items(2, 7, *features)
    torch.testing.assert_close(network(x)[1], network(x[1]), atol=1e-5, rtol=1e-4)


def test_the_item_scorer_is_the_papers_conv1d():
    network, x = seeded(lambda: ItemScorer(10)), items(4, 10, 1)
    first, second = network.layers[0], network.layers[2]
    hidden = torch.relu(nn.functional.conv1d(x.mT, first.weight.unsqueeze(-1), first.bias))
    expected = nn.functional.conv1d(hidden, second.weight.unsqueeze(-1), second.bias).mT
    torch.testing.assert_close(network(x), expected)
    assert count_parameters(network) == 2 * 64 + 64 * 10 + 10
    assert not first.bias.any()
    assert not second.bias.any()


@pytest.mark.parametrize("batch", [(3,), (2, 3), (0,)])
def test_many_positions_are_a_convolution_with_the_numbers_of_a_linear_map(batch, monkeypatch):
    network, x = seeded(lambda: ItemScorer(100, 2)), items(*batch, 7, 2).requires_grad_()
    weights, leaves = items(*batch, 7, 100, seed=1), [x, *network.parameters()]
    calls = []
    monkeypatch.setattr(of_items, "conv2d", lambda *given: calls.append(given) or nn.functional.conv2d(*given))
    found = network(x)
    slopes = torch.autograd.grad((found.square() * weights).sum(), leaves, create_graph=True)
    again = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)
    assert len(calls) == 1
    assert found.is_contiguous()
    linear = torch.relu(x @ network.layers[0].weight.mT) @ network.layers[2].weight.mT  # both biases begin at 0
    expected = torch.autograd.grad((linear.square() * weights).sum(), (leaves[0], leaves[3]), create_graph=True)
    torch.testing.assert_close((found, slopes[0], slopes[3]), (linear, *expected), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(of_items, "MANY", 101)
    slopes = torch.autograd.grad((network(x).square() * weights).sum(), leaves, create_graph=True)
    expected = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)
    torch.testing.assert_close(
        again, expected, rtol=1e-4, atol=1e-3 * max(1.0, *(float(e.abs().max()) for e in expected if e.numel()))
    )
    assert len(calls) == 1


def test_no_gradient_is_copied_since_a_view_was_changed_in_place():
    seen, ahead = set(), [ItemScorer(100)(items(4, 100, 1)).grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None:
            seen.add(node.name())
            ahead += [before for before, _ in node.next_functions]
    assert "ReluBackward0" in seen
    assert not [name for name in seen if "CopySlices" in name]


def test_only_a_context_scorer_sees_the_other_items():
    """An item keeps its scores when another one changes, unless the network compares items."""
    x = items(7, 3)
    y = x.clone()
    y[6] += 1.0
    alone, together = seeded(lambda: ItemScorer(7, 3)), seeded(lambda: ContextScorer(3))
    assert torch.equal(alone(x)[0], alone(y)[0])
    assert (together(x)[0] - together(y)[0]).abs().max() > 1e-3


def test_a_context_scorer_serves_any_number_of_items():
    network = seeded(ContextScorer)
    assert network(items(5, 1)).shape == (5, 5)
    assert network(items(12, 1)).shape == (12, 12)


def test_standardised_forgets_shift_and_scale_and_survives_equal_items():
    x = items(3, 9, 2)
    torch.testing.assert_close(standardised(10 + 5 * x), standardised(x), atol=1e-4, rtol=1e-4)
    assert standardised(torch.full((4, 1), 3.0)).tolist() == [[0.0]] * 4


@pytest.mark.parametrize("tile", [(1, 1, 1), (3, 2, 7), (3, 35, 35), (1, 14, 9)])
def test_tiles_of_any_size(tile):
    c, h, w = tile
    network = TileScorer(4, tile)
    assert network(items(2, 4, c * h * w)).shape == (2, 4, 4)
    with pytest.raises(BadInput, match="values"):
        network(items(4, c * h * w + 1))


@pytest.mark.parametrize(("tile", "count"), [((3, 7, 6), 5), ((1, 1, 1), 2), ((3, 4, 9), 9)])
def test_tiles_at_once_are_the_three_layers(tile, count, monkeypatch):
    """Values and gradients, with more tiles than are taken at once and with odd sizes; some maps are negative everywhere."""
    network = seeded(lambda: TileScorer(4, tile, channels=6))
    x, weight = items(count, 4, tile[0] * tile[1] * tile[2]) - 0.5, items(count, 4, 4)
    found = []
    for at_once in (pooled.at_once, lambda *_: False):
        monkeypatch.setattr(tiles, "at_once", at_once)
        network.zero_grad()
        scores = network(x)
        (scores * weight).sum().backward()
        found.append([scores.detach(), *(p.grad.clone() for p in network.parameters())])
    assert "Pooled" in str(pooled.pooled(x.reshape(-1, *tile), network.picture[0]).grad_fn)
    torch.testing.assert_close(found[0], found[1], atol=2e-5, rtol=2e-5)


def test_gradients_of_the_pixels_and_of_double_precision_go_through_the_layers():
    network = seeded(lambda: TileScorer(4, (1, 4, 5), channels=3)).double()
    x = items(2, 4, 20).double().requires_grad_()
    assert torch.autograd.gradcheck(network, x)


def test_the_tile_scorer_sees_pixels_where_they_are():
    network, x = seeded(lambda: TileScorer(4, (1, 4, 4))), items(4, 16)
    assert (network(x) != network(x.unflatten(1, (4, 4)).mT.flatten(1))).any()


@pytest.mark.parametrize(("n", "hidden", "published"), [(100, 64, 36_072), (1000, 128, 245_484)])
def test_utsp_has_the_published_size(n, hidden, published):
    """The published count holds two batch norms, of 2 and of `hidden` channels, that the published code never calls."""
    idle = 2 * 2 + 2 * hidden
    assert count_parameters(TourScorer(n, hidden)) + idle == published


def test_band_passes_are_differences_of_lazy_walks():
    W = items(6, 6)
    walk = W / W.sum(0)
    h = items(6, 3, seed=1)
    lazy = (torch.eye(6) + walk) / 2
    after = {t: torch.linalg.matrix_power(lazy, t) @ h for t in (1, 2, 4, 8, 16)}
    for ours, (a, b) in zip(band_passes(h, lazy_walks(walk)), ((1, 2), (2, 4), (4, 8), (8, 16)), strict=True):
        torch.testing.assert_close(ours, (after[a] - after[b]).abs())


def test_diffusions_by_their_definition():
    points = items(5, 2)
    low, walk = diffusions(points, locality=0.5)
    W = torch.tensor(
        [[0.0 if i == k else (-(points[i] - points[k]).norm() / 0.5).exp() for k in range(5)] for i in range(5)]
    )
    degree = (W + torch.eye(5)).sum(1)
    torch.testing.assert_close(low, torch.diag(degree**-0.5) @ (W + torch.eye(5)) @ torch.diag(degree**-0.5))
    torch.testing.assert_close(walk, W @ torch.diag(1 / W.sum(1)))


def test_attention_by_its_definition():
    layer = ScatteringAttention(4)
    nn.init.normal_(layer.attention, generator=torch.Generator().manual_seed(0))
    low, walk = diffusions(items(5, 2), 0.5)
    h = items(5, 4, seed=3) - 0.5
    views = [
        nn.functional.leaky_relu(low @ h),
        nn.functional.leaky_relu(low @ low @ h),
        *band_passes(h, lazy_walks(walk)),
    ]
    mixed = torch.zeros(5, 4)
    for node in range(5):
        e = torch.stack([torch.relu(torch.cat((h[node], view[node]))) @ layer.attention for view in views])
        weight = e.softmax(0)
        mixed[node] = sum(weight[k] * views[k][node] for k in range(6)) / 6
    leaky = nn.functional.leaky_relu
    torch.testing.assert_close(layer(h, low, lazy_walks(walk)), leaky(layer.second(leaky(layer.first(mixed)))))


def test_the_stronger_tour_scorer_bounds_its_logits():
    network = seeded(lambda: TourScorer.stronger(6, hidden=8, layers=2))
    network.leave[-1].weight.data.mul_(1e4)
    assert network(items(6, 2)).abs().max() <= 40.0


def test_one_city_and_equal_cities_give_finite_scores():
    assert torch.isfinite(TourScorer(1, hidden=4)(items(1, 2))).all()
    assert torch.isfinite(TourScorer(5, hidden=4)(torch.zeros(5, 2))).all()


def test_a_key_scorer_gives_one_key_per_item():
    assert KeyScorer()(items(3, 8, 1)).shape == (3, 8)
