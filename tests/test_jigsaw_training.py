"""Learning jigsaws: puzzles from folders, masks, seam affinities, the network, and both recipes on generated pictures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from unshuffle.errors import BadInput
from unshuffle.learn.descent import Descent
from unshuffle.metrics import mask_only_tau, mask_only_tau_sampled, order_tau
from unshuffle.networks import AskNeighbours, SeamScorer
from unshuffle.operators.assignment import assign
from unshuffle.operators.permutation import to_matrix
from unshuffle.recipes.folders import by_name, read_folder
from unshuffle.recipes.jigsaw import Jigsaw, distance_to_picture
from unshuffle.recipes.puzzles import anchored, cut_all, puzzles
from unshuffle.recipes.scorers import BySeams
from unshuffle.recipes.settings import plain
from unshuffle.recipes.streams import AHEAD, OnDisk, Streamed
from unshuffle.recipes.trained import recipe_from
from unshuffle.recipes.training import about, train
from unshuffle.relaxations.gumbel_sinkhorn import GumbelSinkhorn
from unshuffle.structure.layouts import Grid
from unshuffle.structure.losses import Smoothness
from unshuffle.structure.seams import SeamMisfit, affinity, extrapolation, seam_affinities
from unshuffle.temperature.local import MeanTau
from unshuffle.temperature.schedules import Constant, Exponential


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(count: int, pixels: int = 18, seed: int = 0) -> torch.Tensor:
    """Smooth noise, bright at the top and red at the left: seams say who is beside whom, content roughly where."""
    coarse = torch.rand(count, 3, 6, 6, generator=generator(seed))
    smooth = nn.functional.interpolate(coarse, (pixels, pixels), mode="bicubic", align_corners=True)
    ramp = torch.linspace(1, 0, pixels)
    smooth = 0.5 * smooth + 0.3 * ramp[:, None]
    smooth[:, 0] += 0.3 * ramp
    return (255 * smooth.clamp(0, 1)).byte().permute(0, 2, 3, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("pictures")
    for k, picture in enumerate(pictures(80)):
        Image.fromarray(picture.numpy()).save(where / f"{k:03}.png")
    (where / "notes.txt").write_text("not a picture")
    return where


# --- puzzles -----------------------------------------------------------------------------------------------------------


def test_the_true_order_puts_the_picture_back():
    original = pictures(4)
    made = puzzles(original, 3, 0, seed=1)
    whole = cut_all(original, 3).float() / 255
    for k in range(4):
        assert torch.equal(made.items[k][made.truth[k]], whole[k])
    assert made.allowed is None
    assert len({tuple(t) for t in made.truth.tolist()}) == 4  # each shuffled in its own way
    assert not torch.equal(puzzles(original, 3, 0, seed=2).truth, made.truth)


def test_tiles_are_flattened_as_the_networks_read_them():
    original = pictures(1, 10)  # 10 is no multiple of 3: a column and a row are cropped
    tile = cut_all(original, 3)[0, 5].unflatten(0, (3, 3, 3))
    assert torch.equal(tile, original[0, 3:6, 6:9].permute(2, 0, 1))


def test_anchored_tiles_can_stand_in_place_and_nowhere_else():
    made = puzzles(pictures(5), 3, 4, seed=0)
    assert made.allowed is not None
    for truth, allowed in zip(made.truth, made.allowed, strict=True):
        fixed = allowed.sum(0) == 1
        assert fixed.sum() == 4
        assert allowed[truth[fixed], torch.arange(9)[fixed]].all()
        assert (allowed.sum(1) == 1).sum() == 4
        assert (allowed.sum(0)[~fixed] == 5).all()
        order = assign(torch.randn(9, 9, generator=generator(3)), allowed)
        assert torch.equal(order[fixed], truth[fixed])
    assert len({tuple((m.sum(0) == 1).tolist()) for m in made.allowed}) > 1  # random per picture


def test_all_places_anchored_leave_only_the_truth():
    truth = torch.tensor([[2, 0, 1]])
    assert torch.equal(anchored(truth, torch.tensor([[0, 1, 2]])).float(), to_matrix(truth))


def test_anchors_alone_give_the_closed_form():
    """A network that knows nothing, with the mask of `puzzles`, has the mask-only Kendall tau."""
    made = puzzles(pictures(1).expand(4000, -1, -1, -1), 3, 3, seed=5)
    random = torch.rand(4000, 9, 9, generator=generator())
    tau = order_tau(assign(random, made.allowed), made.truth)
    error = tau.std().item() / 4000**0.5
    assert abs(tau.mean().item() - mask_only_tau(9, 3)) < 4 * error
    assert abs(mask_only_tau_sampled(9, 3, 4000, generator()).mean().item() - mask_only_tau(9, 3)) < 4 * error


def test_a_folder_is_split_by_name(folder):
    split = read_folder(folder, 18)
    assert [len(part) for part in (split.train, split.held_out, split.test)] == [56, 8, 16]
    assert torch.equal(split.test, pictures(80)[64:])
    assert read_folder(folder, 9, most=20).train.shape == (14, 9, 9, 3)
    assert [len(part) for part in by_name([Path(str(k)) for k in range(1095)])] == [800, 100, 195]


@pytest.fixture
def celeba(tmp_path) -> Path:
    """A folder like CelebA's: 40 pictures, taller than wide, and the official split."""
    (tmp_path / "img_align_celeba").mkdir()
    lines = []
    for k, picture in enumerate(pictures(40).numpy()):
        tall = Image.fromarray(picture).resize((18, 22), Image.Resampling.NEAREST)
        tall.save(tmp_path / "img_align_celeba" / f"{k + 1:06d}.png")
        lines.append(f"{k + 1:06d}.png {0 if k % 4 < 2 else k % 4 - 1}\n")
    (tmp_path / "list_eval_partition.txt").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize("inside", [False, True])
def test_celeba_has_its_official_split_and_stays_on_disk(celeba, inside, monkeypatch):
    monkeypatch.setattr("unshuffle.recipes.folders.MOST_IN_MEMORY", 20)
    (celeba / "list_eval_partition.csv").write_text("not read while the text is there")
    split = read_folder(celeba / "img_align_celeba" if inside else celeba, 18)
    files = [[int(f.stem) - 1 for f in part.files] for part in (split.train, split.held_out, split.test)]  # pyright: ignore
    assert files == [[k for k in range(40) if k % 4 in which] for which in ((0, 1), (2,), (3,))]
    assert split.test[1:3].shape == (2, 18, 18, 3)


def test_celebas_list_may_have_commas_and_must_name_pictures(celeba, tmp_path):
    path = celeba / "list_eval_partition.txt"
    lines = path.read_text().replace(" ", ",")
    path.unlink()
    (celeba / "list_eval_partition.csv").write_text("image_id,partition\n" + lines)
    assert [len(part) for part in vars(read_folder(celeba, 9)).values()] == [20, 10, 10]  # few: in memory
    (celeba / "list_eval_partition.csv").write_text(lines.replace(",1", ",0"))
    with pytest.raises(BadInput, match="30, 0 and 10 of the pictures"):
        read_folder(celeba, 6)


def test_streamed_puzzles_are_a_few_batches_in_memory_and_the_same_again(celeba, monkeypatch):
    files = tuple(sorted((celeba / "img_align_celeba").iterdir()))
    asked = []
    read = OnDisk.read
    monkeypatch.setattr(OnDisk, "read", lambda self, k: asked.append(k) or read(self, k))
    stream = Streamed(OnDisk(files, 18), lambda given, seed: puzzles(given, 3, 2, seed), batch=4, seed=1)
    first = next(given := stream(0))
    assert len(asked) <= 4 * (AHEAD + 1)
    rest = list(given)
    assert (len(stream), len(rest), sorted(asked)) == (10, 9, list(range(40)))
    assert torch.equal(first[0], next(stream(0))[0])
    assert not torch.equal(first[0], next(stream(1))[0])
    turn = replace(stream, in_turn=True, batch=16)
    assert [len(items) for items, _ in turn(0)] == [16, 16, 8] == [len(items) for items, _ in turn(5)]
    assert torch.equal(next(turn(0))[0], next(turn(7))[0])


def test_a_recipe_trains_from_disk(celeba, monkeypatch, tmp_path):
    monkeypatch.setattr("unshuffle.recipes.folders.MOST_IN_MEMORY", 20)
    recipe = replace(Jigsaw.paper(celeba, 4, epochs=2, pixels=16), batch=8, anchors=3)
    fitted = train(recipe, tmp_path / "run")
    assert len(fitted.history) == 2
    assert set(recipe.test(fitted.network)) >= {"tau", "gain"}


def test_supervised_puzzles_are_told_their_picture_and_the_network_is_not(folder):
    recipe = replace(Jigsaw.paper(folder, 4, "global", epochs=12, pixels=18, supervised=True), descent=Descent(3e-3))
    network = recipe.network()
    given = recipe._puzzles(recipe.pictures().test, 3)
    right = to_matrix(given.truth, torch.float32)
    assert distance_to_picture(right, given.items).abs().max() < 1e-12
    turned = to_matrix(given.truth.roll(1, -1), torch.float32)
    assert distance_to_picture(turned, given.items).min() > 1e-3
    moved = given.items.clone()
    moved[..., -1] = moved[..., -1].flip(-1)
    assert torch.equal(network(given.items), network(moved))
    trained = train(replace(recipe, batch=8)).history
    assert trained[-1]["loss"] < 0.9 * trained[0]["loss"]


def test_bad_folders_and_settings_are_told_in_one_sentence(folder, tmp_path):
    with pytest.raises(BadInput, match="at least 10 pictures"):
        read_folder(tmp_path, 18)
    with pytest.raises(BadInput, match="not a folder"):
        read_folder(tmp_path / "nowhere", 18)
    with pytest.raises(BadInput, match="2x2 pixels"):
        puzzles(pictures(1), 10, 0, 0)
    with pytest.raises(BadInput, match="anchors"):
        puzzles(pictures(1), 3, 10, 0)
    with pytest.raises(BadInput, match="4, 5, 6, 7"):
        Jigsaw.paper(folder, 8)
    with pytest.raises(BadInput, match="tours"):
        Jigsaw.strong(folder, 5, "degree")
    with pytest.raises(BadInput, match="2 tiles a side"):
        Jigsaw.strong(folder, 1)
    with pytest.raises(BadInput, match="two lines"):
        seam_affinities(torch.rand(4, 3), (3, 1, 1))


# --- seams -------------------------------------------------------------------------------------------------------------


def test_extrapolation_by_its_definition():
    a, b, c, d = torch.rand(4, 2, 3, 5, generator=generator())
    D = extrapolation(a, b, c, d)
    for i in range(3):
        for k in range(3):
            onward = (2 * b[1, i] - a[1, i] - c[1, k]).abs().sum()
            backward = (2 * c[1, k] - d[1, k] - b[1, i]).abs().sum()
            torch.testing.assert_close(D[1, i, k], onward + backward)


def slow_affinity(D: list[list[float]]) -> list[list[float]]:
    """As it is written: row and column softmax at the scale of the second best seam, at least the median of all scales."""
    n = len(D)
    others = [[k for k in range(n) if k != i] for i in range(n)]
    by_row = [sorted(D[i][k] for k in others[i])[1] for i in range(n)]
    by_column = [sorted(D[i][k] for i in others[k])[1] for k in range(n)]
    least = sorted(map(min, zip(by_row, by_column, strict=True)))[(n - 1) // 2]
    by_row, by_column = ([0.07 * max(scale, least) for scale in scales] for scales in (by_row, by_column))

    def belief(i: int, k: int) -> float:
        row = math.exp(-D[i][k] / by_row[i]) / sum(math.exp(-D[i][j] / by_row[i]) for j in others[i])
        column = math.exp(-D[i][k] / by_column[k]) / sum(math.exp(-D[j][k] / by_column[k]) for j in others[k])
        return math.sqrt(row * column)

    return [[0.0 if i == k else belief(i, k) for k in range(n)] for i in range(n)]


def test_affinity_is_a_slow_ones_for_each_puzzle_of_a_batch():
    cost = torch.rand(3, 8, 8, generator=generator(), dtype=torch.float64) + 0.1
    expected = torch.tensor([slow_affinity(D) for D in cost.tolist()], dtype=torch.float64)
    torch.testing.assert_close(affinity(cost), expected)
    torch.testing.assert_close(affinity(cost[1]), expected[1])


def test_affinity_of_costs_below_0_is_that_of_the_costs_above_their_least():
    cost = torch.rand(8, 8, generator=generator()) + 0.1
    lowest = cost.min()
    torch.testing.assert_close(affinity(cost - lowest - 3), affinity(cost - lowest))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_affinity_of_few_and_of_equal_tiles_is_finite(n):
    for cost in (torch.rand(2, n, n, generator=generator()), torch.zeros(2, n, n)):
        A = affinity(cost)
        assert torch.isfinite(A).all()
        assert not A.diagonal(dim1=-2, dim2=-1).any()


def test_seams_find_the_neighbours_and_tell_right_from_below():
    made = puzzles(pictures(8, 36), 3, 0, seed=0)
    right, below = seam_affinities(made.items, (3, 12, 12))
    grid = made.truth.reshape(8, 3, 3)
    found = right.argmax(-1).gather(1, grid[:, :, :-1].flatten(1)) == grid[:, :, 1:].flatten(1)
    assert found.float().mean() > 0.9
    found = below.argmax(-1).gather(1, grid[:, :-1].flatten(1)) == grid[:, 1:].flatten(1)
    assert found.float().mean() > 0.9


def test_misfit_of_a_hard_order_is_minus_the_affinity_of_its_seams():
    made, loss = puzzles(pictures(3), 3, 0, seed=0), SeamMisfit(Grid(3, 3), (3, 6, 6))
    right, below = seam_affinities(made.items, loss.tile)
    misfit = loss(to_matrix(made.truth), made.items)
    for k in range(3):
        torch.testing.assert_close(misfit[k], loss.grid.energy(made.truth[k], (-right[k], -below[k])))
    other = torch.rand(3, 9, generator=generator()).argsort(-1)
    assert (misfit < loss(to_matrix(other), made.items)).all()
    assert loss(to_matrix(made.truth).expand(5, 3, 9, 9), made.items).shape == (5, 3)


# --- the network -------------------------------------------------------------------------------------------------------


def scorer() -> SeamScorer:
    torch.manual_seed(0)
    network = SeamScorer(9, (3, 6, 6), width=16, layers=3, thumbnail=2)
    nn.init.normal_(network.places.weight)
    return network


def test_shuffled_tiles_give_shuffled_rows():
    network, items = scorer(), puzzles(pictures(2), 3, 0, seed=0).items
    order = torch.randperm(9, generator=generator(1))
    torch.testing.assert_close(network(items[:, order]), network(items)[:, order], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(network(items)[1], network(items[1]), atol=1e-5, rtol=1e-4)


def test_a_tile_hears_from_tiles_as_far_away_as_there_are_layers():
    """A chain 0 -> 1 -> 2 -> 3 of right neighbours: what changes at 3 is known at 1 after two layers, and not at 0."""
    torch.manual_seed(0)
    layers = [AskNeighbours(4), AskNeighbours(4)]
    right = torch.diag(torch.ones(3), 1)
    ways = (right, torch.zeros(4, 4), torch.zeros(4, 4), torch.zeros(4, 4))
    h = torch.randn(4, 4)
    changed = h + torch.diag(torch.tensor([0.0, 0.0, 0.0, 1.0])) @ torch.randn(4, 4)
    for layer in layers:
        h, changed = layer(h, ways), layer(changed, ways)
    moved = (h - changed).abs().sum(-1) > 1e-6
    assert moved.tolist() == [False, True, True, True]


def test_a_new_scorer_prefers_no_place_and_learns_from_the_first_step():
    torch.manual_seed(0)
    network, items = SeamScorer(9, (3, 6, 6), width=16), puzzles(pictures(2), 3, 0, seed=0).items
    scores = network(items)
    assert not scores.any()
    SeamMisfit(Grid(3, 3), (3, 6, 6))(torch.softmax(scores, -1), items).sum().backward()
    assert network.places.weight.grad is not None
    assert network.places.weight.grad.abs().max() > 0
    with pytest.raises(BadInput, match="values"):
        network(items[..., 1:])


# --- recipes -----------------------------------------------------------------------------------------------------------


def test_the_strong_recipe_learns_unseen_pictures_in_seconds(folder):
    strong = Jigsaw.strong(folder, 3, epochs=12)
    faster = replace(strong.descent, rate=3e-3)
    recipe = replace(strong, pixels=18, batch=8, descent=faster, scorer=BySeams(32, 3, 3))
    before = recipe.test(recipe.network())
    fitted = train(recipe)
    after = recipe.test(fitted.network)
    assert fitted.history[-1]["loss"] < fitted.history[0]["loss"] - 1
    assert after["tau"] > max(0.6, before["tau"] + 0.3)
    assert set(after) == {"tau", "gain", "direct", "neighbour", "perfect"}
    assert after["gain"] == after["tau"]  # no anchors


def test_the_paper_recipe_lowers_its_loss_and_keeps_anchors_in_place(folder):
    fixed = Jigsaw.paper(folder, 4, "fixed", epochs=2, pixels=18)
    recipe = replace(fixed, relax=GumbelSinkhorn(Constant(0.5)), anchors=5, batch=8, descent=Descent(3e-3))
    fitted = train(recipe)
    assert fitted.history[1]["loss"] < fitted.history[0]["loss"]
    made = puzzles(recipe.pictures().test, 4, 5, seed=9)
    assert made.allowed is not None
    order = recipe.relax.decode(fitted.network(made.items), allowed=made.allowed)
    fixed = made.allowed.sum(1) == 1
    assert (order == made.truth)[fixed].all()
    assert replace(recipe, anchors=16).test(fitted.network)["direct"] == 1.0  # measured with the mask
    measured = recipe.test(fitted.network)
    assert measured["gain"] == pytest.approx(measured["tau"] - mask_only_tau(16, 5))


@pytest.mark.parametrize(
    ("side", "anchors", "epochs", "betas", "threshold", "boost"),
    [
        (4, 0, 500, {0: 0.5, 499: 2.0}, 0.6, 0.35),
        (5, 1, 500, {0: 0.5, 499: 2.0}, 0.7, 0.2),
        (6, 6, 600, {0: 0.5, 299: 1.33, 599: 1.33}, 0.85, 0.35),
        (7, 12, 600, {0: 0.5, 599: 1.66}, 0.85, 0.35),
    ],
)
def test_the_papers_table(folder, side, anchors, epochs, betas, threshold, boost):
    recipe = Jigsaw.paper(folder, side)
    relax = recipe.relax
    assert (recipe.anchors, recipe.epochs, recipe.batch, recipe.descent.rate, recipe.samples) == (
        anchors,
        epochs,
        32,
        1e-4,
        5,
    )
    assert {e: relax.schedule(e) for e in betas} == pytest.approx(betas)
    assert relax.local is not None
    assert (relax.local.signal.threshold, relax.local.max_boost, relax.adapt_from) == (threshold, boost, 1)  # pyright: ignore
    middle = relax.schedule(0.5 * (max(betas) if side != 6 else 299))
    end = max(betas.values())
    assert middle == pytest.approx((0.5 + end) / 2 if side < 6 else (0.5 * end) ** 0.5)
    assert Jigsaw.paper(folder, side, "global").relax.local is None
    assert Jigsaw.paper(folder, side, "fixed").relax.schedule(7) == 1.0
    assert isinstance(recipe.loss.function.__self__, Smoothness)  # pyright: ignore
    assert isinstance(Jigsaw.strong(folder, side).loss.function, SeamMisfit)  # pyright: ignore


def test_as_published_differs_where_the_authors_code_does(folder):
    recipe = Jigsaw.paper(folder, 5, epochs=101, as_published=True)
    assert recipe.descent.clip is None
    assert recipe.relax.schedule(50) == pytest.approx(1 / 1.25)  # tau from 2 to 0.5, linear
    assert isinstance(recipe.relax.local.combine, MeanTau)
    exponential = Jigsaw.paper(folder, 7, epochs=101, as_published=True).relax.schedule
    assert isinstance(exponential.shape, Exponential)


def test_a_recipe_survives_being_saved(folder):
    for recipe in (Jigsaw.strong(folder, 5), Jigsaw.paper(folder, 6, product=True, band=2)):
        assert plain(recipe_from(json.loads(json.dumps(about(recipe)["recipe"])))) == plain(recipe)


def test_a_puzzle_to_order_may_be_a_picture_or_a_folder_of_tiles(folder, tmp_path):
    recipe = replace(Jigsaw.strong(folder, 3), pixels=18)
    picture = pictures(1)
    Image.fromarray(picture[0].numpy()).save(tmp_path / "puzzle.png")
    expected = cut_all(picture, 3).float() / 255
    torch.testing.assert_close(recipe.read(tmp_path / "puzzle.png"), expected)
    (tmp_path / "tiles").mkdir()
    for k, tile in enumerate(expected[0].unflatten(-1, (3, 6, 6))):
        Image.fromarray((255 * tile).round().byte().permute(1, 2, 0).numpy()).save(tmp_path / "tiles" / f"{k}.png")
    torch.testing.assert_close(recipe.read(tmp_path / "tiles"), expected)
    (tmp_path / "tiles" / "8.png").unlink()
    with pytest.raises(BadInput, match="9 tiles"):
        recipe.read(tmp_path / "tiles")
