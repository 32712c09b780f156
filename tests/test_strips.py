"""Shredded pages, made here: print, cut along slanted rough lines, on different backgrounds."""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.errors import BadInput
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.strips import (
    StripCost,
    find_paper,
    paste,
    read_strips,
    reassemble_page,
    reassemble_pages,
    reassemble_shreds,
    strip_cost,
    turned_cost,
)
from unshuffle.tasks.strips.chances import join_chances
from unshuffle.tasks.strips.rows import rows_arranged
from unshuffle.tasks.strips.shreds import paste_shreds, shred_costs
from unshuffle.tasks.strips.spaces import _evidence, _spaces

COUNT = 9


def page(seed: int = 0, height: int = 520, width: int = 330) -> np.ndarray:
    """Grey print on paper of grey 240 with a little noise."""
    rng = np.random.default_rng(seed)
    image = Image.new("L", (width, height), 240)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(13)
    for y in range(30, height - 40, 18):
        words = " ".join("".join(rng.choice(list("abcdefghmnoprstu"), rng.integers(2, 9))) for _ in range(12))
        if rng.random() < 0.8:
            pen.text((20, y), words[: rng.integers(20, 45)], fill=70, font=font)
    return (np.asarray(image, float) + rng.normal(0, 1.5, (height, width))).clip(0, 250)


def shred(
    sheet: np.ndarray, ground: float, *, rough: float = 1.0, shifts: bool = True, seed: int = 0
) -> list[Image.Image]:
    """Strips in true order; every cut is a slanted line plus smooth noise of about a pixel; alpha is the paper, to a pixel's part."""
    rng = np.random.default_rng(seed)
    height, width = sheet.shape
    y = np.arange(height)
    cuts = [np.zeros(height)]
    for k in range(1, COUNT):
        walk = np.cumsum(rng.normal(0, 0.35 * rough, height))
        walk -= np.linspace(walk[0], walk[-1], height)
        cuts.append(
            k * width / COUNT + rng.uniform(-4, 4) + 5 * (y / height - 0.5) + rng.normal(0, 0.1 * rough, height) + walk
        )
    cuts.append(np.full(height, float(width)))
    strips = []
    for left, right in pairwise(cuts):
        low, high = int(max(left.min() - 6, 0)), int(min(right.max() + 6, width))
        x = np.arange(low, high)
        cover = ((right[:, None] - x).clip(0, 1) * (x + 1 - left[:, None]).clip(0, 1)).clip(0, 1)
        cover = np.pad(cover, ((4, 4), (4, 4)))
        grey = cover * np.pad(sheet[:, low:high], 4, mode="edge") + (1 - cover) * ground
        step = int(rng.integers(-2, 3)) if shifts else 0
        grey = np.roll(grey, step, axis=0)
        strips.append(Image.fromarray(grey.round().astype(np.uint8)))
    return strips


def named(pictures: list[Image.Image]) -> list[tuple[str, Image.Image]]:
    return [(f"{k}.png", picture) for k, picture in enumerate(pictures)]


def solved(pictures: list[Image.Image], seed: int = 0) -> list[int]:
    """True numbers in the order found, from shuffled strips."""
    mixed = np.random.default_rng(seed + 1).permutation(len(pictures))
    solution = reassemble_page(find_paper(named([pictures[k] for k in mixed])), seed=seed).solution
    return mixed[solution.order.numpy()].tolist()


@pytest.mark.parametrize("ground", [0.0, 255.0, 128.0])
def test_a_page_comes_back_on_any_background(ground: float) -> None:
    assert solved(shred(page(1), ground, seed=2)) == list(range(COUNT))


def test_a_dark_background_that_was_painted_white_is_seen_by_its_outline() -> None:
    dark = shred(page(1), 0.0, seed=2)
    painted = [Image.fromarray(np.where(np.asarray(p) < 30, 255, np.asarray(p)).astype(np.uint8)) for p in dark]
    for before, after in zip(find_paper(named(dark)), find_paper(named(painted)), strict=True):
        rows = slice(before.top + 2, before.bottom - 2)
        apart = np.abs(before.left - after.left)[rows]
        assert np.median(apart) < 0.05
        assert np.quantile(apart, 0.9) < 0.1
    assert solved(painted) == list(range(COUNT))


def test_shape_alone_is_enough_on_blank_paper() -> None:
    blank = np.full((520, 330), 240.0) + np.random.default_rng(0).normal(0, 1, (520, 330))
    strips = find_paper(named(shred(blank, 0.0, rough=1.5, shifts=False, seed=3)))
    cost = strip_cost(strips, StripCost(print_weight=0.0, shifts=0)) + torch.eye(COUNT) * 1e9
    assert (cost[:-1].argmin(1) == torch.arange(1, COUNT)).double().mean() >= 0.8
    found = solved(shred(blank, 0.0, rough=1.5, seed=3))
    assert np.mean(np.diff(found) == 1) >= 0.8  # nothing tells where the page begins: margins are blank too


def printed(seed: int, font: str = "DejaVuSerif.ttf", height: int = 900, width: int = 640) -> np.ndarray:
    """A page full of words in a real typeface, as a scanner at 100 dpi sees it."""
    rng = np.random.default_rng(seed)
    image = Image.new("L", (width, height), 250)
    pen = ImageDraw.Draw(image)
    type_ = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font), 17)
    for y in range(20, height - 30, 25):
        words = ["".join(rng.choice(list("aabcdeeefghiijklmnoprsttuvwy"), rng.integers(2, 9))) for _ in range(30)]
        pen.text((12, y), " ".join(words)[: rng.integers(40, 90)], fill=30, font=type_)
    return (np.asarray(image, float) + rng.normal(0, 2, (height, width))).clip(0, 255).astype(np.uint8)


def columns(sheet: np.ndarray, count: int) -> list[Image.Image]:
    return [Image.fromarray(part) for part in np.array_split(sheet, count, axis=1)]


def tilted(strips: list[Image.Image], degrees: float, ground: int = 128) -> list[Image.Image]:
    """On a grey lid, each turned one way or the other and a few rows up or down."""
    rng = np.random.default_rng(3)
    scans = []
    for strip in strips:
        lid = Image.new("L", (strip.width + 80, strip.height + 60), ground)
        lid.paste(strip, (40, 30))
        turned = lid.rotate(
            degrees * rng.choice([-1, 1]) * rng.uniform(0.7, 1), Image.Resampling.BICUBIC, fillcolor=ground
        )
        grey = np.roll(np.asarray(turned, float), int(rng.integers(-3, 4)), axis=0) + rng.normal(
            0, 1.5, turned.size[::-1]
        )
        scans.append(Image.fromarray(grey.clip(0, 255).astype(np.uint8)))
    return scans


@pytest.mark.parametrize(("count", "font"), [(10, "DejaVuSerif.ttf"), (20, "DejaVuSans.ttf"), (30, "DejaVuSerif.ttf")])
def test_strips_without_background_are_known_by_the_columns_of_print(count: int, font: str) -> None:
    assert np.mean(np.diff(solved(columns(printed(count, font), count))) == 1) >= 0.9


@pytest.mark.parametrize(("degrees", "height"), [(0.0, 900), (0.5, 1100), (2.0, 900)])
def test_straight_cuts_on_a_lid_are_compared_along_their_tilt(degrees: float, height: int) -> None:
    scans = tilted(columns(printed(7, height=height), 14), degrees)
    strips = find_paper(named(scans))
    assert all(strip.straight for strip in strips)
    solution = reassemble_page(strips).solution
    right = solution.order.diff() == 1
    assert right.double().mean() >= 0.84  # 16 of 19
    sure = torch.minimum(solution.confidence[solution.order][1:], solution.confidence[solution.order][:-1]) > 0.5
    assert right[sure].double().mean() >= 0.9


def test_print_with_letters_in_a_grid_is_known_by_its_spaces_where_the_cut_meets_no_ink() -> None:
    scans = tilted(columns(printed(3, "DejaVuSansMono.ttf"), 14), 1.0)
    assert reassemble_page(find_paper(named(scans))).solution.order.tolist() == list(range(14))


def test_a_line_goes_on_in_the_spaces_of_its_page_and_where_it_has_not_ended() -> None:
    rng = np.random.default_rng(0)
    letters = (
        rng.random((12, 60)) < 0.8
    )  # twelve lines of sixty letters or spaces, letters five columns wide and two apart
    lengths = rng.integers(25, 60, 12)
    letters &= np.arange(60) < lengths[:, None]
    page = np.kron(letters, np.array([1, 1, 1, 1, 1, 0, 0], bool))
    strips = np.stack(np.array_split(page[:, 3:-9], 12, axis=1))  # 34 columns: the grid is cut elsewhere each time
    assert strips.shape == (12, 12, 34)
    ratio = _spaces(strips)
    assert ratio[1, 1] > 0 > max(ratio[1, 3], ratio[0, 1])
    evidence = _evidence(strips, strips[:, :, ::-1])
    np.fill_diagonal(evidence, -np.inf)
    assert (evidence[:-1].argmax(1) == np.arange(1, 12)).mean() >= 0.8


def test_a_photo_cut_into_columns_has_no_background() -> None:
    photo = Image.open(str(files("unshuffle") / "data" / "french-alpine-landscape.jpg"))
    strips = columns(np.asarray(photo), 20)
    assert not any(strip.background for strip in find_paper(named(strips)))
    assert solved(strips) == list(range(20))


def test_tilted_strips_are_pasted_upright_on_one_line() -> None:
    sheet = printed(7)
    pasted = paste(find_paper(named(tilted(columns(sheet, 14), 2.0))), list(range(14))).convert("L")
    assert abs(pasted.height - len(sheet)) <= 4
    lines, printed_lines = (np.asarray(p, float).mean(1) for p in (pasted.resize(sheet.shape[::-1]), sheet))
    assert np.corrcoef(lines, printed_lines)[0, 1] > 0.9  # lines of print are as straight as they were


def test_rough_cuts_keep_their_shape() -> None:
    assert not any(strip.straight for strip in find_paper(named(shred(page(1), 0.0, seed=2))))


def test_blank_strips_give_some_order_and_no_confidence() -> None:
    solution = reassemble_page(find_paper(named([Image.new("L", (20, 300), 255)] * 9))).solution
    assert sorted(solution.order.tolist()) == list(range(9))
    assert solution.confidence.max() < 0.5


def test_a_larger_scan_gives_the_same_order() -> None:
    pictures = [p.resize((p.width * 4, p.height * 4), Image.Resampling.BICUBIC) for p in shred(page(5), 0.0, seed=6)]
    assert solved(pictures) == list(range(COUNT))


def test_transparent_background_is_background() -> None:
    sheet = shred(page(7), 0.0, seed=8)
    pictures = []
    for strip in sheet:
        grey = np.asarray(strip)
        alpha = np.where(grey < 25, 0, 255).astype(np.uint8)
        pictures.append(Image.fromarray(np.dstack([np.where(alpha == 0, 200, grey)] * 3 + [alpha]).astype(np.uint8)))
    assert solved(pictures) == list(range(COUNT))


def test_edges_are_found_to_a_part_of_a_pixel() -> None:
    y = np.arange(200)
    left, right = 8.3 + 0.02 * y, 40.6 + 0.02 * y
    x = np.arange(60)
    cover = ((right[:, None] - x).clip(0, 1) * (x + 1 - left[:, None]).clip(0, 1)).clip(0, 1)
    for ground in (0.0, 255.0):
        grey = (cover * 235 + (1 - cover) * ground).round().astype(np.uint8)
        strip = find_paper([("a", Image.fromarray(grey)), ("b", Image.fromarray(grey))])[0]
        # a pixel that is half covered lies half a pixel inside of its centre
        assert np.abs(strip.left + 0.5 - left).max() < 0.3
        assert np.abs(strip.right + 0.5 - right).max() < 0.3


def test_true_neighbours_cost_least_and_a_pair_costs_its_own_evidence() -> None:
    strips = find_paper(named(shred(page(9), 0.0, seed=10)))
    cost = strip_cost(strips)
    off = cost + torch.eye(COUNT) * 1e9
    assert (off[:-1].argmin(1) == torch.arange(1, COUNT)).all()
    weak = strip_cost(strips, StripCost(print_weight=0.0))
    assert (cost <= weak + 1e-9).all()


def test_the_page_is_pasted_without_gaps() -> None:
    sheet = page(11)
    strips = find_paper(named(shred(sheet, 0.0, shifts=False, seed=12)))
    whole = np.asarray(paste(strips, list(range(COUNT))).convert("L"))
    assert abs(whole.shape[1] - sheet.shape[1]) <= COUNT + 4
    assert (whole[100:-100, 10:-10] < 40).mean() < 0.01  # no black background shows


def test_no_background_shows_between_the_strips_of_a_page() -> None:
    """Blank paper on black, pasted: nothing darker than paper but for the torn ends."""
    blank = np.full((520, 330), 240.0)
    strips = find_paper(named(shred(blank, 0.0, shifts=False, seed=12)))
    whole = np.asarray(paste(strips, list(range(COUNT))).convert("L"))
    assert (whole[20:-20, 10:-10] < 150).mean() < 1e-3


def test_command_line(tmp_path) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    mixed = np.random.default_rng(5).permutation(COUNT)
    for place, k in enumerate(mixed):
        shred(page(13), 0.0, seed=14)[k].save(folder / f"s{place}.png")
    (folder / "notes.txt").write_text("not a picture")
    done = CliRunner().invoke(
        build("strips"), ["strips", str(folder), "--out", str(tmp_path / "o"), "--json", "--polish"]
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert mixed[result["order"]].tolist() == list(range(COUNT))
    assert result["polished"]["energy"] <= result["energy"] + 1e-9
    assert len(result["confidence"]) == COUNT
    assert result["doubtful joins"] == []
    assert (tmp_path / "o" / "page.png").stat().st_size > 1000
    assert (tmp_path / "o" / "order.csv").read_text().splitlines()[1].startswith("1,s")


def test_strips_on_a_ground_like_the_paper_are_said_to_be(tmp_path) -> None:
    sheet = np.where(page(13) > 225, 255.0, page(13))
    for k, strip in enumerate(shred(sheet, 255.0, seed=14)):
        strip.save(tmp_path / f"s{k}.png")
    done = CliRunner().invoke(build("strips"), ["strips", str(tmp_path), "--out", str(tmp_path / "o")])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "No background was seen" in said
    result = json.loads((tmp_path / "o" / "result.json").read_text())
    assert f"{len(result['doubtful joins'])} of {COUNT - 1} joins are doubtful" in said
    assert json.loads((tmp_path / "o" / "result.json").read_text())["background"] is False
    assert all((strip.paper == 1).all() for strip in find_paper(named([Image.new("L", (20, 300), 255)] * 2)))  # blank


def test_what_cannot_be_used_is_said_in_a_sentence(tmp_path) -> None:
    with pytest.raises(BadInput, match="not a folder"):
        read_strips(tmp_path / "none")
    with pytest.raises(BadInput, match="at least two"):
        read_strips(tmp_path)
    tall, low = Image.new("L", (20, 300), 255), Image.new("L", (20, 5), 255)
    for picture in (tall, low):
        picture.putpixel((0, 0), 0)
    with pytest.raises(BadInput, match="rows of paper"):
        strip_cost(find_paper([("a", tall), ("b", low)]))


def test_solve_is_what_the_public_name_does() -> None:
    cost = strip_cost(find_paper(named(shred(page(1), 0.0, seed=2))))
    assert us.solve(us.Path(COUNT), cost=cost).order.tolist() == list(range(COUNT))


def half_turned(pictures: list[Image.Image], seed: int = 1) -> tuple[list[Image.Image], np.ndarray]:
    """Half of them upside down, and which."""
    turned = np.random.default_rng(seed).permutation(len(pictures)) % 2 == 1
    return [p.rotate(180) if t else p for p, t in zip(pictures, turned, strict=True)], turned


def as_it_was(order: np.ndarray, stands: np.ndarray) -> bool:
    """Strips 0, 1, 2, ... in order, all upright, or the whole page upside down."""
    order, stands = (order[::-1], ~stands) if stands[0] else (order, stands)
    return bool((np.diff(order) == 1).all() and not stands.any())


def test_strips_upside_down_are_turned() -> None:
    pictures, turned = half_turned(shred(page(1), 0.0, seed=2))
    mixed = np.random.default_rng(3).permutation(COUNT)
    strips = find_paper(named([pictures[k] for k in mixed]))
    found = reassemble_page(strips, turned=True)
    order = mixed[found.order.numpy()]
    assert as_it_was(order, turned[order] ^ np.array(found.turned))
    assert len(found.turned) == COUNT
    whole = np.asarray(paste(strips, found.order.tolist(), found.turned).convert("L"), float)
    upright = np.asarray(paste(find_paper(named(shred(page(1), 0.0, seed=2))), list(range(COUNT))).convert("L"), float)
    alike = max(
        np.corrcoef(w[:500, :300].ravel(), upright[:500, :300].ravel())[0, 1] for w in (whole, np.rot90(whole, 2))
    )
    assert alike > 0.4  # strips on one another would be about 0


def test_a_join_across_a_missing_strip_is_doubtful() -> None:
    """Upside down or not, the two edges that are left over are no pair."""
    kept = [k for k in range(COUNT) if k != 4]
    pictures, _ = half_turned([strip for k, strip in enumerate(shred(page(1), 0.0, seed=2)) if k in kept])
    found = reassemble_page(find_paper(named(pictures)), turned=True, missing=True)
    true = np.array(kept)[found.order.numpy()]
    across = np.flatnonzero(np.abs(np.diff(true)) == 2)
    assert len(across) == 1
    assert found.chances[across[0]] < 0.5
    assert (found.chances > 0.5).sum() >= len(kept) - 3


def test_a_turned_strip_is_turned_about_its_own_paper() -> None:
    scan = np.zeros((60, 30), np.uint8)
    scan[10:40, 8:20] = 200
    scan[12, 9] = 90
    strip = find_paper(named([Image.fromarray(scan)] * 2))[0]
    other = strip.turned()
    assert (other.top, other.bottom) == (strip.top, strip.bottom)
    assert np.asarray(other.picture)[37, 20] == 90
    assert other.grey[37, 20] == pytest.approx(90 / 255)
    assert np.allclose(other.left[12:38], 29 - strip.right[12:38])
    cost = turned_cost([strip, strip])
    assert torch.equal(cost, cost.flip(1, 3).permute(2, 3, 0, 1))


def test_pages_in_one_pile_are_told_apart() -> None:
    both = shred(page(1), 0.0, seed=2) + shred(np.roll(page(5), 7, axis=0), 0.0, seed=6)
    mixed = np.random.default_rng(3).permutation(2 * COUNT)
    pages = reassemble_pages(find_paper(named([both[k] for k in mixed])))
    assert sorted(mixed[one.order.numpy()].tolist() for one in pages) == [
        list(range(COUNT)),
        list(range(COUNT, 2 * COUNT)),
    ]


def test_cross_cut_shreds_are_a_grid() -> None:
    sheet, grid = printed(7, height=460, width=300), Grid(2, 10)
    cut = [t for band in np.array_split(sheet, 2, axis=0) for t in np.array_split(band, 10, axis=1)]
    mixed = np.random.default_rng(3).permutation(20)
    found, same = reassemble_shreds(find_paper(named([Image.fromarray(cut[k]) for k in mixed])), grid)
    assert same == grid
    truth = torch.from_numpy(np.argsort(mixed))
    assert float(us.metrics.neighbour_accuracy(found.order, truth, grid)) >= 0.85


@pytest.mark.parametrize(("seed", "lost"), [(79708, 0), (99454, 0), (7, 1)])
def test_the_grid_of_shreds_is_that_of_a_sheet(seed: int, lost: int) -> None:
    """A crystal of the first two is 10 x 2 and 5 x 3, and was made 10 x 3 and 9 x 3; of the third a shred is missing."""
    cut = [t for band in np.array_split(printed(seed), 5, axis=0) for t in np.array_split(band, 5, axis=1)]
    mixed = np.random.default_rng(seed).permutation(25)[lost:]
    found, grid = reassemble_shreds(find_paper(named([Image.fromarray(cut[k]) for k in mixed])), None)
    assert grid == Grid(5, 5)
    assert int((found.order < 0).sum()) == lost


def test_shreds_of_a_page_without_a_grain_are_all_paper() -> None:
    """On their side, lines of print between rows of exactly one grey look like strips on a ground."""
    sheet = np.full((160, 240), 244, np.uint8)
    for y in range(8, 150, 14):
        sheet[y : y + 7, 10:236] = np.random.default_rng(y).choice([40, 244], (7, 226), p=[0.4, 0.6])
    cells = [cell for band in np.array_split(sheet, 2, axis=0) for cell in np.array_split(band, 8, axis=1)]
    cells[3][:] = 244  # nothing is printed there
    right, below = shred_costs(find_paper(named([Image.fromarray(cell) for cell in cells])))
    assert right.isfinite().all()
    assert below.isfinite().all()


def test_rows_of_shreds_are_put_in_order_and_opened_where_they_begin() -> None:
    rng = np.random.default_rng(0)
    n, truth = 24, np.arange(24).reshape(3, 8)
    right, below = rng.random((n, n)), rng.random((n, n))
    right[truth[:, :-1].ravel(), truth[:, 1:].ravel()] -= 1.0
    below[truth[:-1].ravel(), truth[1:].ravel()] -= 0.4
    board = np.stack([np.roll(truth[2], 3), truth[0], np.roll(truth[1], -2)])
    assert (rows_arranged(board, right, below) == truth).all()
    assert (rows_arranged(board[:1], right, below) == board[:1]).all()


def test_chances_of_joins_are_those_of_one_neighbour_each() -> None:
    rng = np.random.default_rng(0)
    cost = rng.normal(-20, 7, (8, 8))
    np.fill_diagonal(cost, np.inf)
    k = np.arange(7)
    cost[k, k + 1] = -90.0
    chance = join_chances(cost, 2.0)
    assert (chance[k, k + 1] > 0.99).all()
    cost[3, 4] = cost[3, 1]  # a join like any other, but the other is taken
    assert join_chances(cost, 2.0)[3, 4] > 10 * join_chances(cost, 2.0)[3, 1]
    assert join_chances(cost, 2.0, 2.0)[3, 4] < join_chances(cost, 2.0)[3, 4]  # where a strip may be missing
    even = join_chances(np.where(np.eye(8, dtype=bool), np.inf, 0.0), 2.0)
    assert even.sum() == pytest.approx(7)
    assert np.allclose(even[~np.eye(8, dtype=bool)], 1 / 8)


def write(folder: Path, pictures: list[Image.Image]) -> np.ndarray:
    """Shuffled, and the true number of each file."""
    mixed = np.random.default_rng(5).permutation(len(pictures))
    folder.mkdir()
    for place, k in enumerate(mixed):
        pictures[k].save(folder / f"s{place:02}.png")
    return mixed


def test_command_line_of_turned_strips_of_several_pages(tmp_path) -> None:
    both = shred(page(1), 0.0, seed=2) + shred(np.roll(page(5), 7, axis=0), 0.0, seed=6)
    pictures, turned = half_turned(both)
    mixed = write(tmp_path / "scans", pictures)
    words = ["strips", str(tmp_path / "scans"), "--turned", "--several", "--missing", "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(build("strips"), [*words, "--json", "--alternatives", "2"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert len(result["pages"]) == 2
    for one in result["pages"]:
        order = mixed[one["order"]]
        assert as_it_was(order, turned[order] ^ (np.array(one["turns"]) == 2))
        assert len(one["gaps"]) <= 1  # about one strip in ten is expected to be missing
        assert len(one["confidence of joins"]) == COUNT - 1
        turns = dict(zip(one["order"], one["turns"], strict=True))
        for other in one["alternatives"]:
            assert other["order"] != one["order"]
            assert other["turns"] == [turns[strip] for strip in other["order"]]
        assert len(one["alternatives"]) == 2
    assert len(result["confidence"]) == 2 * COUNT
    assert {path.name for path in (tmp_path / "o").iterdir()} == {
        "page-1.png",
        "page-2.png",
        "order.csv",
        "result.json",
    }
    head, *rows = (tmp_path / "o" / "order.csv").read_text().splitlines()
    assert head == "page,position,strip,number in the input,confidence,turns"
    assert len(rows) == 2 * COUNT


def test_a_missing_strip_leaves_a_gap(tmp_path) -> None:
    strips = shred(page(1), 0.0, rough=1.5, seed=2)
    mixed = write(tmp_path / "scans", strips[:4] + strips[5:])
    words = ["strips", str(tmp_path / "scans"), "--missing", "--json", "--out", str(tmp_path / "o")]
    result = json.loads(CliRunner().invoke(build("strips"), words).stdout)
    order = mixed[result["order"]].tolist()
    assert sum(b == a + 1 for a, b in pairwise(order) if (a, b) != (3, 4)) >= 6
    assert [order[place] for place in result["gaps"]] == [3] or order[0] == 4
    drawn = np.asarray(Image.open(tmp_path / "o" / "page.png"))
    grey = (drawn == 127).all(-1).mean(0) > 0.9
    assert np.flatnonzero(np.diff(grey.astype(int)) == 1).size == len(result["gaps"]), "white on white shows nothing"
    assert 0.02 < grey.mean() < 0.2


def test_a_missing_shred_leaves_a_hole() -> None:
    sheet = printed(7, height=200, width=240)
    cut = [Image.fromarray(t) for band in np.array_split(sheet, 2, axis=0) for t in np.array_split(band, 4, axis=1)]
    drawn = np.asarray(paste_shreds(find_paper(named(cut)), [0, 1, -1, 3, 4, 5, 6, 7], Grid(2, 4)))
    assert (drawn[:100, 120:180] == 127).all()
    assert (drawn[100:] == np.array(sheet)[100:, :, None]).mean() > 0.95


def test_command_line_of_shreds(tmp_path) -> None:
    sheet = printed(7, height=460, width=240)
    cut = [Image.fromarray(t) for band in np.array_split(sheet, 2, axis=0) for t in np.array_split(band, 8, axis=1)]
    mixed = write(tmp_path / "shreds", cut)
    words = ["strips", str(tmp_path / "shreds"), "--grid", "8x2", "--json", "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(build("strips"), words)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    truth = torch.from_numpy(np.argsort(mixed))
    assert float(us.metrics.neighbour_accuracy(torch.tensor(result["order"]), truth, Grid(2, 8))) >= 0.85
    with Image.open(tmp_path / "o" / "page.png") as whole:
        assert whole.size == (240, 460)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--grid", "8x2", "--turned"], "leave out --turned"),
        (["--grid", "8x1"], "cut both ways"),
        (["--grid", "eight"], "such as 7x7"),
        (["--several", "--polish"], "takes one page"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, options: list[str], says: str) -> None:
    write(tmp_path / "scans", [Image.new("L", (20, 300), 255)] * 3)
    done = CliRunner().invoke(
        build("strips"), ["strips", str(tmp_path / "scans"), *options, "--out", str(tmp_path / "o")]
    )
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert not (tmp_path / "o").exists()
