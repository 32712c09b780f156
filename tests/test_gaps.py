"""Tiles with pixels worn off their edges: how many is found, and seams are compared across the gap."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from unshuffle.cli.common import build
from unshuffle.errors import BadInput
from unshuffle.metrics import neighbour_accuracy
from unshuffle.networks.facing import Facing
from unshuffle.operators.permutation import inverse
from unshuffle.structure.layouts import Grid
from unshuffle.tasks import gaps
from unshuffle.tasks.gaps import ALONE, ROUNDS, blurred, exclusive, facing, find_gap, trained
from unshuffle.tasks.jigsaw import as_float, cut, reassemble, seam_costs, seams_in_time
from unshuffle.tasks.turned import turned_seams
from unshuffle.watch import Watch

PHOTO = Path(str(files("unshuffle") / "data" / "coffee.jpg"))


def worn(gap: int, grid: Grid, size: int = 28) -> torch.Tensor:
    pixels = np.asarray(Image.open(PHOTO).convert("RGB"))[: size * grid.height, : size * grid.width]
    return as_float(cut(pixels, grid)[0])[:, gap : size - gap, gap : size - gap]


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_how_much_is_worn_off_is_found(gap: int) -> None:
    tiles = worn(gap, Grid(7, 9))
    assert find_gap(tiles) == gap
    turned = torch.stack([tile.rot90(k % 4, (0, 1)) for k, tile in enumerate(tiles)])
    assert find_gap(turned, turned=True) == gap


def test_too_few_tiles_have_no_gap_that_could_be_found() -> None:
    assert find_gap(torch.rand(2, 9, 9, 3)) == 0
    assert find_gap(torch.rand(9, 3, 9, 3)) == 0


def test_smoothing_keeps_lines_that_are_straight() -> None:
    line = torch.arange(40.0)[None, :, None] * 2 + 5
    assert torch.allclose(blurred(line, 2.0)[:, 7:-7], line[:, 7:-7])
    assert torch.allclose(blurred(torch.full((2, 9, 3), 7.0), 4.0), torch.tensor(7.0))


def slow_logit(network: Facing, left: np.ndarray, right: np.ndarray, gap: int, logs: list[float]) -> float:
    """The formula pixel by pixel, for one pair of tiles (along, across, 3)."""
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}
    near = w["near"][gap - 1] - w["near"][gap - 1].mean((1, 3, 4), keepdims=True)
    along = len(left)

    def at(k: int) -> int:
        return min(max(k, 0), along - 1)

    def beside(strip: np.ndarray) -> np.ndarray:  # the nearest line first, the last one repeated
        return np.concatenate((strip, np.repeat(strip[:, -1:], 12, 1)), 1)[:, :12].astype(float)

    strips = beside(left[:, ::-1]), beside(right)
    y, seen, units = np.zeros((32, along)), np.zeros((32, along)), np.zeros(along)
    for side, x in enumerate(strips):
        for p in range(along):
            window = np.stack([x[at(p + d), :4] for d in range(-2, 3)], -1)  # line, colour, pixel
            y[:, p] += np.einsum("jclk,lck->j", near[:, side], window)
            squares = []
            for q in (at(p + d) for d in range(-4, 5)):
                up = max(q, 1)
                squares.append(((x[q, :5] - x[q, 1:6]) ** 2).mean() + ((x[up, :6] - x[up - 1, :6]) ** 2).mean())
            units[p] += np.sqrt(np.mean(squares) / 2) + 1
        mean = x.mean((0, 1))
        contrast = np.sqrt(((x - mean) ** 2).mean()) + 2
        h = np.concatenate(((x - mean) / contrast, (x - 128) / 64, np.full((along, 12, 1), np.log(contrast / 16))), 2)
        for layer, step, edge in ((0, 2, 1), (2, 2, 1), (4, 1, 0)):
            kernel, padded = w[f"strip.{layer}.weight"], np.pad(h, ((1, 1), (edge, edge), (0, 0)))
            lines = range(0, padded.shape[1] - 2, step)
            h = np.array([[np.einsum("okab,abk->o", kernel, padded[p : p + 3, d : d + 3]) for d in lines] for p in range(along)])  # fmt: skip
            h = np.maximum(h + w[f"strip.{layer}.bias"], 0)
        part = slice(32 * side, 32 * side + 32)
        seen += w["sides.weight"][part, :, 0] @ h[:, 0].T + w["sides.bias"][part, None]
    y /= units
    h = np.maximum(y / (1 + np.abs(y) / 8) + seen + w["bias"][gap - 1][:, None], 0)
    for layer in (0, 2):
        padded = np.pad(h, ((0, 0), (1, 1)))
        h = np.stack(
            [np.einsum("oka,ka->o", w[f"along.{layer}.weight"], padded[:, p : p + 3]) for p in range(along)], 1
        )
        h = np.maximum(h + w[f"along.{layer}.bias"][:, None], 0)
    return float(w["head.weight"][0] @ h.mean(1) + w["head.bias"][0] - 10 * w["plain"][gap - 1] @ logs)


@pytest.mark.parametrize(("gap", "size"), [(1, 28), (2, 28), (3, 14)])
def test_logits_are_those_of_the_formula(gap: int, size: int) -> None:
    tiles = worn(gap, Grid(3, 4), size)
    asked = torch.rand(12, 12, generator=torch.Generator().manual_seed(0)) < 0.1
    logs = torch.randn(4, 12, 12, generator=torch.Generator().manual_seed(1)).masked_fill(~asked, torch.inf)
    Z = facing(tiles, logs, gap, lambda _: None)
    for i, k in asked.nonzero().tolist():
        slow = slow_logit(trained(), tiles[i].numpy(), tiles[k].numpy(), gap, logs[:, i, k].tolist())
        assert float(Z[i, k]) == pytest.approx(slow, abs=1e-3)
    assert (Z[~asked] == -torch.inf).all()


def test_reading_the_weights_draws_no_random_numbers() -> None:
    trained.cache_clear()
    before = torch.random.get_rng_state()
    trained()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_without_its_weights_worn_edges_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "WEIGHTS", "gone.npz")
    trained.cache_clear()
    try:
        with pytest.raises(BadInput, match=r"gone\.npz.*install unshuffle again"):
            seam_costs(worn(1, Grid(3, 3), 12), gap=1)
        assert seam_costs(worn(1, Grid(3, 3), 12)).right.shape == (9, 9)
    finally:
        trained.cache_clear()


def made_up(height: int, width: int) -> np.ndarray:
    """Hills of colour with a few straight shores, and noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width].astype(float)
    picture = np.zeros((height, width, 3))
    for _ in range(40):
        turn, length, phase = rng.uniform(0, np.pi), rng.uniform(10, 60), rng.uniform(0, 2 * np.pi)
        wave = np.sin((x * np.cos(turn) + y * np.sin(turn)) * 2 * np.pi / length + phase)
        picture += wave[..., None] * rng.normal(0, 1, 3) * length**0.5
        if rng.random() < 0.4:
            shore = x * np.cos(turn) + y * np.sin(turn) > rng.uniform(0, width)
            picture += shore[..., None] * rng.normal(0, 12, 3)
    picture = 128 + 45 * (picture - picture.mean()) / picture.std() + rng.normal(0, 4, picture.shape)
    return picture.clip(0, 255).astype(np.uint8)


def test_a_picture_with_worn_edges_is_solved_better_by_whoever_knows_it() -> None:
    grid, gap = Grid(7, 9), 2
    tiles = as_float(cut(made_up(14 * grid.height, 14 * grid.width), grid)[0])[:, gap:-gap, gap:-gap]
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(0))
    right = [
        float(neighbour_accuracy(reassemble(tiles[shuffle], grid, gap=known).order, inverse(shuffle), grid))
        for known in (0, gap)
    ]
    assert right[1] > right[0] + 0.1


def test_grey_tiles_and_transparent_ones_are_looked_at_by_their_colours() -> None:
    tiles, logs = worn(1, Grid(3, 3), 12), torch.zeros(4, 9, 9)

    def seen(tiles: torch.Tensor) -> torch.Tensor:
        return facing(tiles, logs, 1, lambda _: None)

    grey, opaque = tiles.mean(3, keepdim=True), torch.full_like(tiles[..., :1], 255.0)
    assert torch.allclose(seen(torch.cat((tiles, opaque), 3)), seen(tiles), atol=1e-4)
    assert torch.allclose(seen(torch.cat((grey, opaque), 3)), seen(grey.expand(-1, -1, -1, 3)), atol=1e-4)


def test_true_neighbours_are_told_better_than_by_the_cost_without_a_gap() -> None:
    grid, gap = Grid(7, 9), 2
    tiles = worn(gap, grid)
    right = []
    for seams in (seam_costs(tiles), seam_costs(tiles, gap=gap)):
        found = 0
        for cost, pairs in zip((seams.right, seams.below), grid.relations(), strict=True):
            best = cost.clone().fill_diagonal_(torch.inf)
            found += int((best.argmin(1)[pairs[:, 0]] == pairs[:, 1]).sum() + (best.argmin(0)[pairs[:, 1]] == pairs[:, 0]).sum())  # fmt: skip
        right.append(found)
    assert right[1] > right[0]


def test_a_partner_that_somebody_else_needs_more_is_left_to_him() -> None:
    Z = torch.full((4, 4), -20.0)
    Z[0, 2], Z[0, 3], Z[1, 2] = 2.0, 1.5, 2.0  # both want tile 2, and only one of them has another choice
    assert exclusive(Z)[0].argmax() == 3
    assert exclusive(Z)[1].argmax() == 2


def test_chances_of_seams_are_those_of_a_slow_loop_and_each_side_has_one_partner_at_most() -> None:
    Z = 3 * torch.randn(10, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    K = np.exp(Z.numpy())
    np.fill_diagonal(K, 0)
    K /= np.sqrt(np.outer(K.sum(1), K.sum(0)))
    r, c = np.ones(10), np.ones(10)
    for _ in range(ROUNDS):
        r, c = np.sqrt(r / (K @ c + np.exp(ALONE))), np.sqrt(c / (K.T @ r + np.exp(ALONE)))
    found = exclusive(Z).exp().numpy()
    assert np.allclose(found, r[:, None] * K * c, rtol=1e-6)
    assert max(found.sum(0).max(), found.sum(1).max()) < 1.15 < K.sum(0).max()
    assert np.allclose(exclusive(Z.T).exp().T, found)


def test_only_a_whole_picture_has_one_partner_for_each_side() -> None:
    tiles = worn(2, Grid(4, 4), 14)
    whole, pile = seams_in_time(tiles, Watch(None, None), gap=2), seam_costs(tiles, gap=2)
    assert whole is not None
    assert torch.equal(whole.right, seam_costs(tiles, gap=2, full=True).right)
    assert not torch.allclose(whole.right, pile.right, rtol=0.01)


def test_the_costs_of_turned_pieces_are_those_of_the_turned_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gaps, "exclusive", lambda Z, _: Z
    )  # pieces of one tile are rivals only where they are taken for tiles
    tiles = worn(1, Grid(3, 3), 12)
    pieces = turned_seams(tiles, gap=1)
    plain = seam_costs(torch.stack([tile.rot90(k, (0, 1)) for tile in tiles for k in range(4)]), gap=1)
    apart = ~torch.block_diag(*[torch.ones(4, 4, dtype=torch.bool)] * 9)
    # medians are over other pairs: one factor; and what is looked at from the other side or in a mirror is only nearly the same to the network
    for ours, theirs in ((pieces.right, plain.right), (pieces.below, plain.below)):
        ratio = (ours / theirs)[apart]
        assert float(ratio.std() / ratio.mean()) < 0.05


def test_the_command_wears_tiles_off_and_finds_out_how_much(tmp_path: Path) -> None:
    arguments = ["jigsaw", str(PHOTO), "--grid", "6x5", "--shuffle", "--gap", "1", "--json", "--out", str(tmp_path)]
    told = CliRunner().invoke(build("jigsaw"), arguments)
    assert told.exit_code == 0, told.output
    result = json.loads(told.stdout)
    assert result["gap"] == 1
    assert result["accuracy"]["neighbour"] == 1.0
    again = ["jigsaw", str(tmp_path / "reassembled.png"), "--grid", "6x5", "--gap", "auto", "--json", "--out", str(tmp_path / "again")]  # fmt: skip
    result = json.loads(CliRunner().invoke(build("jigsaw"), again).stdout)
    assert result["gap"] == 1
    assert result["order"] == list(range(30))
    refused = CliRunner().invoke(build("jigsaw"), [*arguments[:-4], "9"])
    assert refused.exit_code == 2
    assert "0 to 3" in refused.output
