"""Entropy targets: the sharpness that meets one, its slow lead in training, and what it is for."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn

import unshuffle as us
from unshuffle.temperature.entropy import RATE, UNDECIDED, Sharpness, sharpness

TARGET = us.EntropyTarget(0.9, 0.3, epochs=11)


def row_entropy(a, scores, allowed=None, iterations=10):
    return float(us.entropy(us.sinkhorn(a * scores, iterations, allowed), -1, allowed).mean())


def test_the_schedule_is_one_of_entropies():
    assert [TARGET(e) for e in (0, 5, 10, 99)] == pytest.approx([0.9, 0.6, 0.3, 0.3])
    for start, end in ((0.0, 0.5), (0.5, 1.1), (float("nan"), 0.5)):
        with pytest.raises(us.BadInput, match="entropy"):
            us.EntropyTarget(start, end, epochs=3)


@pytest.mark.parametrize("target", [0.97, 0.8, 0.4, 0.1])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", ["random", "a band"])
def test_the_sharpness_meets_the_target(target, scale, kind):
    places = torch.linspace(0, 1, 40)
    scores = torch.randn(6, 40, 40) if kind == "random" else -(places[:, None] - places).square().expand(6, 40, 40)
    a = sharpness(scale * scores, target, 10)
    assert row_entropy(a, scale * scores) == pytest.approx(target, abs=0.04)
    assert float(a) * scale == pytest.approx(float(sharpness(scores, target, 10)), rel=1e-3)


def test_masks_count_the_entries_that_are_left():
    scores, allowed = torch.randn(5, 30, 30), torch.rand(30, 30) < 0.4
    allowed |= torch.eye(30, dtype=torch.bool)
    a = sharpness(scores, 0.6, 10, allowed)
    assert row_entropy(a, scores, allowed) == pytest.approx(0.6, abs=0.04)


@pytest.mark.parametrize("scores", [torch.zeros(2, 5, 5), torch.full((5, 5), 7.0), torch.randn(3, 1, 1)])
def test_nothing_to_decide_is_no_error(scores):
    relax = us.GumbelSinkhorn(TARGET, noise=0.25)
    P = relax(scores, epoch=10, samples=2)
    assert P.isfinite().all()
    assert us.GumbelSinkhorn(TARGET, noise=0.0)(scores).isfinite().all()


def test_noise_stands_apart_from_sharpness():
    """a S + sigma g, whatever the scale of S: the noise in logits is sigma, not a sigma."""
    scores = torch.randn(4, 12, 12)
    relax = us.GumbelSinkhorn(TARGET, noise=0.25)
    relax(scores, epoch=3)
    a = relax.sharpness.log_a.exp()
    P = relax(scores, epoch=3, generator=torch.Generator().manual_seed(1))
    g = (us.gumbel_sinkhorn(torch.zeros(4, 12, 12), iterations=1, generator=torch.Generator().manual_seed(1))).log()
    expected = us.sinkhorn(a * scores + 0.25 * g)  # g up to row and column terms, which Sinkhorn from uniform removes
    assert torch.equal(us.assign(P.log()), us.assign(expected.log()))
    for scale in (1e-3, 1e3):
        other = us.GumbelSinkhorn(TARGET, noise=0.25)
        other(scale * scores, epoch=3)
        Q = other(scale * scores, epoch=3, generator=torch.Generator().manual_seed(1))
        assert torch.allclose(P, Q, atol=1e-3)


def test_it_is_led_slowly_and_only_in_training():
    scores = torch.randn(40, 20, 20)
    relax = us.GumbelSinkhorn(us.Sinkhorn(us.EntropyTarget(0.5, 0.5, epochs=1)).schedule, noise=0.1)
    before = relax.eval()(scores)
    assert float(us.entropy(before).mean()) == pytest.approx(0.5, abs=0.03)  # untrained, it meets the target at once
    assert relax.sharpness.log_a.isnan()
    relax.train()
    relax(scores)
    first = float(relax.sharpness.log_a)
    logits = torch.tensor(first - RATE * 0.5).exp() * (scores - scores.mean(-1, keepdim=True))
    assert float(logits.std()) == pytest.approx(UNDECIDED / 20, rel=0.1)
    steps = []
    for _ in range(60):
        relax(scores)
        steps.append(float(relax.sharpness.log_a))
    assert all(0 <= b - a <= RATE * 0.5 + 1e-6 for a, b in zip([first, *steps], steps, strict=False))
    assert row_entropy(relax.sharpness.log_a.exp(), scores) == pytest.approx(0.5, abs=0.02)
    relax.eval()
    relax(scores)
    report = relax.report(scores)
    assert float(relax.sharpness.log_a) == steps[-1]
    assert report.beta_mean == pytest.approx(float(relax.sharpness.log_a.exp()), rel=1e-5)
    assert float(report.row_entropy.mean()) == pytest.approx(0.5, abs=0.02)


def test_where_it_stands_is_saved_with_the_model():
    scores = torch.randn(4, 10, 10)
    model = nn.Sequential(nn.Linear(10, 10), us.GumbelSinkhorn(TARGET, noise=0.25))
    for _ in range(5):
        model(scores)
    again = nn.Sequential(nn.Linear(10, 10), us.GumbelSinkhorn(TARGET, noise=0.25))
    again.load_state_dict(model.state_dict())
    for other in (again, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.eval()(scores), model.eval()(scores))
    assert not us.GumbelSinkhorn(us.Constant(1.0)).state_dict()
    untrained = us.GumbelSinkhorn(TARGET, noise=0.25)
    assert not untrained.state_dict(), "nothing to save yet"
    again[1].load_state_dict(untrained.state_dict())
    assert again[1].sharpness.log_a.isnan()  # pyright: ignore
    lead = model[1].sharpness
    assert isinstance(lead, Sharpness)
    lead.reset()
    assert lead.log_a.isnan()


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_is_led_in_steps_as_small_as_any(half):
    layer, scores = us.GumbelSinkhorn(), torch.randn(4, 6, 6, generator=torch.Generator().manual_seed(0)).to(half)
    layer(scores.float())
    other = copy.deepcopy(layer).to(half)
    for _ in range(20):
        layer(scores.float())
        assert other(scores).dtype == half
    assert torch.equal(other.sharpness.log_a, layer.sharpness.log_a)


def test_without_arguments_it_is_led_and_needs_no_epoch():
    plain = us.GumbelSinkhorn()
    assert plain == us.GumbelSinkhorn(us.OpenPlaces(0.72, 0.72, epochs=1, hold=False))
    assert us.GumbelSinkhorn(us.Constant(2.0)).noise == 1.0
    assert us.Sinkhorn().schedule == us.Constant(1.0)
    scores, told = 50 * torch.randn(40, 20, 20), us.GumbelSinkhorn()
    for step in range(200):
        us.set_epoch(told, step)
        P, Q = (relax(scores, generator=torch.Generator().manual_seed(step)) for relax in (plain, told))
        assert torch.equal(P, Q)
    nats = row_entropy(plain.sharpness.log_a.exp(), scores) * math.log(20)
    assert math.exp(nats) == pytest.approx(0.72 * 20, abs=0.3)


def test_open_places_count_what_a_mask_leaves():
    target, scores = us.OpenPlaces(0.5, 0.25, epochs=2), torch.randn(3, 16, 16)
    assert float(target.entropy(target(0), scores)) == pytest.approx(0.75)  # half of 2^4 places: one bit of four
    assert float(target.entropy(target(1), scores)) == pytest.approx(0.5)
    allowed = torch.eye(16, dtype=torch.bool) | (torch.arange(16) < 8)[:, None].eq(torch.arange(16) < 8)
    assert float(target.entropy(target(0), scores, allowed)) == pytest.approx(2 / 3)
    assert float(target.entropy(target(1), scores[:, :2, :2])) == 0.0


@pytest.mark.parametrize("hold", [True, False])
def test_a_network_that_decides_by_itself_is_softened_only_where_the_target_holds(hold):
    scores = torch.randn(40, 20, 20)
    relax = us.GumbelSinkhorn(us.EntropyTarget(0.8, 0.8, epochs=1, hold=hold), noise=0.25)
    for _ in range(150):
        relax(scores)
    met = float(relax.sharpness.log_a)
    assert row_entropy(relax.sharpness.log_a.exp(), scores) == pytest.approx(0.8, abs=0.02)
    for _ in range(150):
        relax(3 * scores)
    found = row_entropy(relax.sharpness.log_a.exp(), 3 * scores)
    assert (found == pytest.approx(0.8, abs=0.02)) if hold else (float(relax.sharpness.log_a) == met and found < 0.6)


def test_others_refuse_it_in_one_sentence():
    for relax in (us.NeuralSort, us.SoftSort, us.OT4P, us.ColumnSoftmax):
        with pytest.raises(us.BadInput, match=f"{relax.__name__} has no entropy"):
            relax(TARGET)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_sorting_is_learned_at_any_scale_of_the_scores(scale):
    """The paper's network and its loss of neighbouring positions, 120 steps of fresh lists."""
    n, steps = 20, 120
    network = nn.Sequential(nn.Conv1d(1, 64, 1), nn.ReLU(), nn.Conv1d(64, n, 1))
    for layer in network:
        if isinstance(layer, nn.Conv1d):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    adam = torch.optim.Adam(network.parameters(), 5e-3)
    relax = us.GumbelSinkhorn()
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        items = 10 + torch.rand(32, n, 1)
        P = relax(scale * network(items.mT).mT, samples=3, generator=generator)
        loss = us.losses.monotone(us.reorder(P, items.expand(3, 32, n, 1))).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    items = 10 + torch.rand(50, n, 1)
    order = us.assign(network(items.mT).mT.detach())
    assert float(us.metrics.order_tau(order, items[..., 0].argsort(-1)).mean()) > 0.99


def uneven(count=6, n=24):
    """Matrices of which some, and in each some rows, are far more certain than others."""
    certain = torch.linspace(0.2, 3.0, n)
    return torch.randn(count, n, n) * certain[:, None] * torch.linspace(0.3, 3.0, count)[:, None, None]


@pytest.mark.parametrize("masked", [False, True])
def test_rows_and_columns_that_follow_by_themselves_are_all_as_open(masked):
    scores = uneven()
    allowed = (torch.rand(24, 24) < 0.6) | torch.eye(24, dtype=torch.bool) if masked else None
    plain = us.sinkhorn(scores, 10, allowed)
    field = us.EachRow(steps=30, most=20.0)(scores, 10, allowed)
    even = us.sinkhorn(field * scores, 10, allowed)
    for side in (-1, -2):
        before, after = us.entropy(plain, side, allowed), us.entropy(even, side, allowed)
        assert after.std() < 0.2 * before.std()
    mean = us.entropy(plain, -1, allowed).mean()
    assert us.entropy(even, -1, allowed).mean().item() == pytest.approx(mean.item(), abs=0.03)
    few = us.EachRow()(scores, 10, allowed)
    assert (
        us.entropy(us.sinkhorn(few * scores, 10, allowed), -1, allowed).std()
        < 0.7 * us.entropy(plain, -1, allowed).std()
    )


def test_matrices_that_follow_by_themselves_are_all_as_open():
    scores = uneven()
    field = us.EachMatrix(steps=20)(scores, 10)
    assert torch.equal(field, field[..., :1, :1].expand_as(field))
    before = us.entropy(us.sinkhorn(scores, 10), -1).mean(-1).std()
    after = us.entropy(us.sinkhorn(field * scores, 10), -1).mean(-1)
    assert after.std() < 0.1 * before
    one = us.EachRow(matched=True)(scores, 10)
    assert one.flatten() == pytest.approx(us.EachRow()(scores, 10).mean((-2, -1)))


@pytest.mark.parametrize("each", [us.EachRow(), us.EachMatrix(), us.EachRow(matched=True)])
def test_a_layer_takes_who_follows(each):
    scores = uneven().requires_grad_()
    relax = us.GumbelSinkhorn(us.EntropyTarget(0.5, 0.5, epochs=1, each=each), noise=0.0)
    for _ in range(30):
        P = relax(scores)
    a, last = relax.sharpness(scores, 0.5, 10), scores.detach()
    assert torch.allclose(relax.eval()(scores), us.sinkhorn(each(a * last, 10) * a * last, 10), atol=1e-6)
    (slope,) = torch.autograd.grad((P * torch.randn_like(P)).sum(), scores)
    assert slope.isfinite().all()
    assert slope.abs().max() > 0
    assert copy.deepcopy(relax) == relax
    with pytest.raises(us.BadInput, match="every item has a place"):
        relax(torch.randn(3, 4))


def test_the_gradient_of_a_learned_target_is_that_of_the_next_step():
    """Finite differences: with a lower target the next a is sharper, by eta times the difference."""
    scores, weights = torch.randn(2, 16, 16), torch.randn(2, 16, 16)
    relax = us.GumbelSinkhorn(us.LearnedTarget(0.6), noise=0.0)
    relax.sharpness.log_a.fill_(0.5)
    (relax(scores) * weights).sum().backward()

    def loss(raw: float) -> float:
        target, here = (us.OpenPlaces().entropy(torch.sigmoid(torch.tensor(x)), scores) for x in (raw, math.log(1.5)))
        return float((us.sinkhorn(torch.exp(0.5 - RATE * (target - here)) * scores) * weights).sum())

    step = 0.05
    numeric = (loss(math.log(1.5) + step) - loss(math.log(1.5) - step)) / (2 * step)
    assert float(relax.schedule.raw.grad) == pytest.approx(numeric, rel=0.02)


def test_a_learned_target_finds_how_sure_the_scores_deserve_to_be():
    """Scores that know the order well are worth being sharp on; where they know nothing, rows had better stay open."""
    found = {}
    for name, noise in (("knows", 0.1), ("knows nothing", 50.0)):
        torch.manual_seed(0)
        relax = us.GumbelSinkhorn(us.LearnedTarget(0.72))
        adam = torch.optim.Adam(relax.parameters(), 0.05)
        for _ in range(80):
            items = torch.rand(8, 12, 1)
            scores = -(items - torch.linspace(0, 1, 12)).square() * 12 + noise * torch.randn(8, 12, 12)
            target = items.sort(-2).values
            loss = (us.reorder(relax(scores), items) - target).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        found[name] = relax.schedule()
    assert found["knows"] < 0.72 < found["knows nothing"]


@pytest.mark.parametrize("schedule", [us.OpenPlaces(each=us.EachRow(matched=True)), us.LearnedTarget(0.4)])
def test_recipes_with_it_are_written_down_and_read_back(schedule):
    from dataclasses import replace

    from unshuffle.recipes.settings import plain
    from unshuffle.recipes.sorting import Sorting
    from unshuffle.recipes.trained import recipe_from

    recipe = replace(Sorting.paper(5), relax=us.GumbelSinkhorn(schedule))
    again = recipe_from(plain(recipe)).relax.schedule
    assert again == schedule or again() == schedule()


@pytest.mark.parametrize("n", [4, 25, 100])
def test_unless_given_the_noise_is_that_of_the_size(n):
    scores = torch.randn(2, n, n)
    by_itself, given = (us.GumbelSinkhorn(noise=noise) for noise in (None, 1.5 / math.sqrt(n)))
    one, other = (relax(scores, samples=2, generator=torch.Generator().manual_seed(3)) for relax in (by_itself, given))
    assert torch.equal(one, other)
    assert by_itself != given


def test_a_batch_of_nothing_has_no_entropy_and_leads_nowhere():
    for training in (True, False):
        relax = us.GumbelSinkhorn().train(training)
        assert relax(torch.zeros(0, 4, 4), samples=2).shape == ((2, 0, 4, 4) if training else (1, 0, 4, 4))
        assert relax.sharpness.log_a.isnan()


@pytest.mark.parametrize(
    ("shape", "settings"),
    [((6, 1), {}), ((1, 6), {}), ((6, 1), {"reject": 0.0}), ((4, 6), {"keep": 2})],
    ids=["one position", "one item", "price", "keep"],
)
def test_it_begins_undecided_where_not_everybody_has_a_place(shape, settings):
    """What all positions of an item (or items of a position) have in common then says who has a place."""
    scores = torch.randn(20, *shape, generator=torch.Generator().manual_seed(1))
    for offset in (0.0, 5 * scores.mean(-1, keepdim=True), 5 * scores.mean(-2, keepdim=True)):
        soft = us.GumbelSinkhorn(noise=0.0, **settings)(scores + offset)
        assert soft.amin() > 1e-6  # nobody is out of the question yet
        found = us.GumbelSinkhorn(**settings).eval()(scores + offset)
        assert bool(found.isfinite().all())


def test_a_report_tells_the_field_of_rows_that_follow_by_themselves():
    scores = torch.randn(4, 6, 6, generator=torch.Generator().manual_seed(2)) * torch.linspace(0.2, 3, 6).unsqueeze(-1)
    found, plain = (
        us.GumbelSinkhorn(us.EntropyTarget(0.7, 0.7, 1, each=each)).eval().report(scores)
        for each in (us.EachRow(steps=20), None)
    )
    assert plain.beta_min == plain.beta_max
    assert found.beta_min < plain.beta_mean < found.beta_max
    assert found.row_entropy.std() < 0.5 * plain.row_entropy.std()


def test_inside_torch_func_nothing_is_led():
    """Of several models at once, and where only the target or the price is looked at."""
    scores = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(3))
    layers = [us.GumbelSinkhorn(noise=0.0) for _ in range(2)]
    layers[1](scores)
    parameters, buffers = torch.func.stack_module_state(layers)  # pyright: ignore[reportArgumentType]
    inner = copy.deepcopy(layers[0])

    def call(p, b):
        return torch.func.functional_call(inner, (p, b), (scores,))

    together = torch.func.vmap(call)(parameters, buffers)
    torch.testing.assert_close(together[1], layers[1](scores))
    for relax in (us.GumbelSinkhorn(us.LearnedTarget()), us.GumbelSinkhorn(reject=nn.Parameter(torch.zeros(())))):
        ((name, value),) = relax.named_parameters()
        gradient = torch.func.grad(
            lambda v, r=relax, n=name: torch.func.functional_call(r, {n: v}, (scores,)).square().sum()
        )
        assert bool(gradient(value.detach()).isfinite())
        assert relax.sharpness.log_a.isnan()


def test_one_matrix_of_scores_under_several_masks():
    scores, masks = torch.randn(4, 4), torch.rand(3, 4, 4) > 0.2
    masks |= torch.eye(4, dtype=torch.bool)
    relax = us.GumbelSinkhorn(noise=0.0)
    assert torch.equal(
        relax(scores, allowed=masks), us.GumbelSinkhorn(noise=0.0)(scores.expand(3, 4, 4), allowed=masks)
    )
