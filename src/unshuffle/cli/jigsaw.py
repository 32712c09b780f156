"""``unshuffle jigsaw``: a photo, a shuffled picture or a folder of tiles, put together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput
from .common import Clock, counted, foresee, png_of, progress, say, table_text, to_the_end
from .doubts import next_best, others_of, sets_in
from .many import put_many_together, puzzles_in
from .options import Alternatives, Polish, Usual
from .results import write_results
from .several import GUESSED, first_few, write_several
from .several import lines as lines_of_several

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from torch import Tensor

    from ..solve.solution import Solution
    from ..structure.layouts import Grid
    from ..tasks.piles import Reassembled


def jigsaw(
    photo: Annotated[
        Path,
        typer.Argument(
            help="A photo, a picture that is a shuffled grid, or a folder of tiles; a folder of such folders: many puzzles."
        ),
    ],
    grid: Annotated[
        str,
        typer.Option(
            "--grid",
            "-g",
            help="Tiles across x tiles down, such as 7x7 or 12x9; auto finds the borders of the tiles of a shuffled picture, "
            "and how many tiles of a folder stand beside and below each other, in one picture or in several of like size.",
        ),
    ] = "auto",
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Cut the photo and shuffle it first.")] = False,
    anchors: Annotated[
        int, typer.Option("--anchors", min=0, help="With --shuffle: tiles whose place is given away.")
    ] = 0,
    turned: Annotated[
        bool,
        typer.Option(
            "--turned",
            help="The tiles may be turned by quarter turns; with --shuffle they are (upside down if they are not square).",
        ),
    ] = False,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Tiles of other pictures may be among them: leave out what does not fit.")
    ] = False,
    several: Annotated[
        bool,
        typer.Option("--several", help="The tiles are of several pictures, of any size each, and some may be of none."),
    ] = False,
    pad: Annotated[
        bool, typer.Option("--pad", help="Where the grid does not divide: repeat edge pixels, do not crop.")
    ] = False,
    gap: Annotated[
        str,
        typer.Option("--gap", help="Pixels worn off each edge of the tiles, 0 to 3, or auto; with --shuffle they are."),
    ] = "0",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Many puzzles: so many at a time; each picture of a folder is then one."),
    ] = None,
    executor: Annotated[
        str, typer.Option("--executor", help="Many puzzles: local, in processes here; ray, on a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Of the Ray cluster (default: one is started here).")
    ] = None,
    polish: Polish = False,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-jigsaw")),
) -> None:
    """Put the tiles of a shuffled picture back in place.

    Without --shuffle the tiles are taken as they come: from a folder of equally large pictures, or cut from one picture
    whose tiles are in the wrong places. Fewer tiles than places leave holes, more are left out as far as they fit worst. Writes
    reassembled.png, before-after.png, order.csv and result.json, and left-out.png if there are such tiles. Without --grid the
    tiles of a folder may be of several pictures: then picture-1.png, picture-2.png and so on, and pictures.png with all. Of a folder of
    folders each is a puzzle with a folder of results of its own, --time-limit is for each, and summary.csv has a line for each; what
    an interrupted call has finished is not computed again.

    Example: unshuffle jigsaw photo.jpg --grid 12x9 --shuffle
    """
    from ..tasks.gaps import find_gap
    from ..tasks.jigsaw import as_float, foreseen, in_lists, reassemble
    from ..tasks.piles import Reassembled, reassemble_pile, reassemble_several
    from ..tasks.turned import turns_of

    clock = Clock(usual.time_limit)
    worn = parse_gap(gap)
    if anchors and not shuffle:
        raise BadInput("--anchors needs --shuffle: only then are true places known.")
    if anchors and (turned or foreign):
        raise BadInput(
            "--anchors are places of upright tiles that all belong: leave out either them or --turned and --foreign."
        )
    if foreign and shuffle:
        raise BadInput("--foreign is for tiles as they come: of a photo that is cut here all belong to it.")
    if puzzles := puzzles_in(photo, jobs is not None):
        options = {"grid": grid, "shuffle": shuffle, "anchors": anchors, "turned": turned, "foreign": foreign, "several": several}  # fmt: skip
        options |= {"pad": pad, "gap": gap, "polish": polish} | ({"others": others} if others else {})
        put_many_together(puzzles, options, jobs, (executor, address), usual)
        return
    if jobs is not None or executor != "local" or address is not None:
        raise BadInput(f"--jobs, --executor and --address are for a folder of puzzles, and {photo} is none.")
    if several and (shuffle or foreign or polish or anchors or grid.strip().lower() != "auto"):
        raise BadInput(
            "--several takes a folder of tiles and --turned, but no grid, shuffle, anchors, foreign or polish."
        )
    if several and not photo.is_dir():
        raise BadInput(f"--several takes a folder of tiles, and {photo} is none.")
    with progress("jigsaw", usual.silent, usual.time_limit) as show:
        show.stage("reading the tiles")
        box = tiles_of(photo, grid, shuffle, pad, usual.seed, turned, worn)
        show.given(box)
        states = len(turns_of(box.tiles.shape[1:3])) if turned else 1
        listed = in_lists(len(box.tiles) * states) and worn == 0 and not anchors
        foresee(*foreseen(box.tiles.shape, usual.time_limit, turned, listed), usual.silent)
        left = clock.before(drawing_seconds(box.tiles.size))
        pixels = as_float(box.tiles)
        worn = find_gap(pixels, turned) if worn is None else worn
        options: dict[str, Any] = {"gap": worn, "seed": usual.seed, "time_limit": left, "callback": show}
        if several or (box.grid is None and not (foreign or polish)):
            pictures = reassemble_several(pixels, turned=turned, all_belong=not several, **options)
        elif box.grid is None or turned or foreign or len(pixels) != box.grid.n:
            options |= {"turned": turned, "foreign": foreign, "polish": polish}
            pictures = [Reassembled(*reassemble_pile(pixels, box.grid, **options))]
            if box.lain is not None and box.grid is not None and box.grid.width != box.grid.height:
                # the picture may consist of tiles of the other shape, as the grid says how many are beside each other
                sides = box.on_their_sides()
                options["time_limit"] = None if left is None else max(left - pictures[0].solution.seconds, 0.0)
                other = Reassembled(*reassemble_pile(as_float(sides.tiles), box.grid, **options))
                if other.solution.best_energy < pictures[0].solution.best_energy:
                    box, pictures = sides, [other]
        else:
            allowed = known_places(box, box.grid, anchors, usual.seed)
            solution = reassemble(pixels, box.grid, allowed=allowed, polish=polish, **options)
            pictures = [Reassembled(solution, box.grid)]
        with to_the_end():
            show.stage("drawing")
            if several or len(pictures) > 1:
                result = write_several(photo, box, pictures, worn, others, clock, usual)
            else:
                result = write_one(photo, box, pictures[0], {"anchors": anchors, "gap": worn}, others, clock, usual)
    told = lines_of_several if "pictures" in result else lines
    say(result, told(result, clock.words(), usual.out) + next_best(result, others), usual.json_, usual.quiet)


def write_one(
    photo: Path, box: Box, found: Reassembled, settings: dict[str, int], others: int, clock: Clock, usual: Usual
) -> dict[str, Any]:
    """The files of one picture; what is told of it."""
    from ..readers.pictures import png
    from ..tasks.jigsaw import join

    solution, grid = found.solution, found.grid
    with ThreadPoolExecutor(1) as beside:  # packing a large picture takes as long as drawing the other
        whole = beside.submit(png, join(box.tiles, solution.best_order, grid, solution.best_state))
        files = {"before-after.png": png_of(picture_of(box, grid, solution)), "reassembled.png": whole.result()}
    if alone := left_out(box, solution):
        files["left-out.png"] = png(side_by_side(box.tiles[alone], grid.width))
    result = summary(photo, box, grid, solution, usual.seed) | settings | sets_in(solution, clock=clock)
    result |= others_of(solution, others, told=box.as_they_came(solution)) | clock.times()
    write_results(usual.out, files | {"order.csv": table_text(places(box, grid, solution))}, result)
    return result


def drawing_seconds(numbers: int) -> float:
    """Roughly, on a small machine, by the numbers that a picture has: three a pixel."""
    return 0.8 + 3e-8 * numbers


@dataclass(frozen=True)
class Box:
    """A jigsaw as it comes: tiles in the order given, their names, and for a shuffled photo where each belongs."""

    tiles: np.ndarray
    grid: Grid | None
    """None: not known."""
    names: list[str]
    changed: str
    truth: Tensor | None
    turns: Tensor | None = None
    """The quarter turns that each tile needs, where they are known."""
    lain: Tensor | None = None
    """The quarter turns by which each of them was turned on the way here, where some lay on their side."""

    def on_their_sides(self) -> Box:
        """All tiles a quarter turn further, and the grid as it is."""
        import numpy as np

        turned = np.ascontiguousarray(np.rot90(self.tiles, axes=(1, 2)))
        return replace(self, tiles=turned, lain=None if self.lain is None else self.lain + 1)

    def as_they_came(self, solution: Solution) -> Solution:
        """The solution with the turns of the tiles as they came."""
        if self.lain is None or solution.state is None:
            return solution
        order = solution.order
        return replace(solution, state=(solution.state + self.lain[order]).remainder(4).masked_fill(order < 0, -1))


def parse_grid(text: str) -> Grid:
    from ..structure.layouts import Grid

    match = re.fullmatch(r"\s*(\d{1,5})\s*[xX×,]\s*(\d{1,5})\s*", text)
    if not match or 0 in (sizes := [int(part) for part in match.groups()]):
        raise BadInput(f"--grid must be tiles across x tiles down, such as 7x7, not {text!r}.")
    return Grid(height=sizes[1], width=sizes[0])


def parse_gap(text: str) -> int | None:
    """Pixels worn off each edge; None: to be found."""
    if text.strip().lower() == "auto":
        return None
    if text.strip() not in ("0", "1", "2", "3"):
        raise BadInput(f"--gap must be the pixels worn off each edge, 0 to 3, or auto, not {text!r}.")
    return int(text)


MOST_TILES = 50_000  # whether there is memory for less is asked when the tiles are known


IF_SHUFFLED_HERE = "7x7"  # without --grid, of a photo that is whole


def tiles_of(
    photo: Path, given: str, shuffle: bool, pad: bool, seed: int, turned: bool = False, gap: int | None = 0
) -> Box:
    import torch

    from ..operators.permutation import inverse
    from ..readers.pictures import read_picture, read_tiles, read_turned_tiles
    from ..tasks.jigsaw import cut

    auto = given.strip().lower() == "auto"
    grid = None if auto else parse_grid(given)
    if grid is not None and grid.n > MOST_TILES:
        raise BadInput(f"A grid of {grid.width}x{grid.height} has {grid.n} tiles; at most {MOST_TILES} can be solved.")
    if not photo.exists():
        raise BadInput(f"There is no file or folder {photo}.")
    if photo.is_dir():
        lain = None
        if turned and not shuffle:
            tiles, names, quarters = read_turned_tiles(photo)
            lain = torch.from_numpy(quarters) if quarters.any() else None
        else:
            tiles, names = read_tiles(photo)
        grid = parse_grid("1x1") if grid is None and len(tiles) == 1 else grid
        changed = ""
        if shuffle and (grid is None or len(tiles) != grid.n):
            raise BadInput(f"--shuffle takes a photo, or a folder with as many tiles as --grid says, not {len(tiles)}.")
    else:
        pixels, lain = read_picture(photo), None
        grid = grid or (parse_grid(IF_SHUFFLED_HERE) if shuffle else grid_of_picture(photo, pixels))
        tiles, changed = cut(pixels, grid, pad)
        names = [f"row {k // grid.width + 1}, column {k % grid.width + 1}" for k in range(grid.n)]
    if not shuffle or grid is None:
        return Box(tiles, grid, names, changed, None, lain=lain)
    if gap:
        tiles = worn_off(tiles, gap)
    mixed = torch.randperm(grid.n, generator=torch.Generator().manual_seed(seed))
    tiles, turns = tiles[mixed.numpy()], None
    if turned:
        tiles, turns = at_random_turned(tiles, seed)
    return Box(tiles, grid, [names[k] for k in mixed.tolist()], changed, inverse(mixed), turns)


def worn_off(tiles: np.ndarray, gap: int) -> np.ndarray:
    """Without so many pixels at each edge."""
    import numpy as np

    if min(tiles.shape[1:3]) < 2 * gap + 2:
        raise BadInput(f"Tiles of {tiles.shape[2]}x{tiles.shape[1]} pixels are too small for --gap {gap}.")
    return np.ascontiguousarray(tiles[:, gap:-gap, gap:-gap])


def at_random_turned(tiles: np.ndarray, seed: int) -> tuple[np.ndarray, Tensor]:
    """The tiles, each turned at random, and the quarter turns that it needs to stand upright again."""
    import numpy as np
    import torch

    from ..tasks.turned import turns_of

    choices = torch.tensor(turns_of(tiles.shape[1:3]))
    turns = choices[torch.randint(len(choices), (len(tiles),), generator=torch.Generator().manual_seed(seed + 2))]
    return np.stack([np.rot90(tile, -turn) for tile, turn in zip(tiles, turns.tolist(), strict=True)]), turns


def grid_of_picture(photo: Path, pixels: np.ndarray) -> Grid:
    """By the borders of the tiles, or one sentence."""
    from ..tasks.borders import find_grid

    grid = find_grid(pixels)
    if grid is None:
        raise BadInput(
            f"No borders of tiles show in {photo}: add --shuffle to cut and shuffle it first, or give --grid if its tiles are shuffled."
        )
    return grid


def known_places(box: Box, grid: Grid, anchors: int, seed: int) -> Tensor | None:
    """A mask that holds ``anchors`` tiles, chosen at random, in their true places."""
    import torch

    from ..recipes.puzzles import anchored

    if not anchors or box.truth is None:
        return None
    n = grid.n
    if anchors > n:
        raise BadInput(f"There are only {n} tiles, so at most {n} anchors, not {anchors}.")
    places = torch.randperm(n, generator=torch.Generator().manual_seed(seed + 1))[:anchors]
    return anchored(box.truth.unsqueeze(0), places.unsqueeze(0))[0]


def left_out(box: Box, solution: Solution) -> list[int]:
    """The tiles that have no place."""
    return sorted(set(range(len(box.tiles))) - set(solution.best_order.tolist()))


def side_by_side(tiles: np.ndarray, most: int) -> np.ndarray:
    """Tiles in rows of at most so many, as they came."""
    import torch

    from ..structure.layouts import Grid
    from ..tasks.jigsaw import join

    width = max(1, min(most, len(tiles)))
    grid = Grid(-(-len(tiles) // width), width)
    order = torch.arange(grid.n)
    return join(tiles, torch.where(order < len(tiles), order, -1), grid)


def summary(photo: Path, box: Box, grid: Grid, solution: Solution, seed: int) -> dict[str, Any]:
    came = box.as_they_came(solution)
    result: dict[str, Any] = {
        "input": str(photo),
        "grid": f"{grid.width}x{grid.height}",
        "changed": box.changed,
        "seed": seed,
        "order": solution.order.tolist(),
        **({} if came.state is None else {"turns": came.state.tolist()}),
        "confidence": [round(float(c), 4) for c in solution.confidence],
        "left_out": left_out(box, solution),
        "unchanged": solution.best_order.tolist() == list(range(len(box.tiles)))
        and len(box.tiles) > 1
        and (came.state is None or not came.state.any()),
        "energy": None if math.isnan(solution.energy) else solution.energy,
        "agreement": solution.agreement,
        "status": solution.status,
    }
    if box.truth is not None:
        result["accuracy"] = accuracy(replace(solution, polished=None), box, grid)
    if solution.polished is not None:
        result["polished"] = {"order": solution.best_order.tolist(), "energy": solution.best_energy}
        if came.best_state is not None:
            result["polished"]["turns"] = came.best_state.tolist()
        if box.truth is not None:
            result["polished"]["accuracy"] = accuracy(solution, box, grid)
    return result


def accuracy(solution: Solution, box: Box, grid: Grid) -> dict[str, float]:
    import torch

    from ..metrics import direct_accuracy, neighbour_accuracy, order_tau
    from ..tasks.jigsaw import identical
    from ..tasks.turned import turned_scores

    if box.truth is None:
        return {}
    if box.turns is not None:
        scores = turned_scores(solution, box.truth, box.turns, grid, box.tiles.shape[1] == box.tiles.shape[2])
        return {"direct": scores.direct, "neighbour": scores.neighbour, "quarter turns to upright": scores.turn}
    order = solution.best_order
    group = torch.from_numpy(identical(box.tiles))
    return {
        "direct": float(direct_accuracy(order, box.truth)),
        "neighbour": float(neighbour_accuracy(order, box.truth, grid)),
        "direct, identical tiles interchangeable": float(direct_accuracy(group[order], group[box.truth])),
        "kendall tau": float(order_tau(order, box.truth)) if grid.n > 1 else 1.0,
    }


def places(box: Box, grid: Grid, solution: Solution) -> Iterator[tuple[object, ...]]:
    """One line per position of the picture: which tile stands there, counted from 1 as it came, and how sure that is;
    then one per tile that is left out."""
    turns = box.as_they_came(solution).best_state
    yield "row", "column", "number in the input", "name", "confidence", *(() if turns is None else ("turns",))
    stands = [(place, tile) for place, tile in enumerate(solution.best_order.tolist())]
    for place, tile in stands + [(None, tile) for tile in left_out(box, solution)]:
        where = ("", "") if place is None else tuple(k + 1 for k in divmod(place, grid.width))
        what = ("", "", "") if tile < 0 else (tile + 1, box.names[tile], f"{float(solution.confidence[tile]):.4f}")
        turn = () if turns is None else ("" if place is None or tile < 0 else int(turns[place]),)
        yield *where, *what, *turn


def lines(result: dict[str, Any], took: str, out: Path) -> list[str]:
    """What a person wants to know."""
    sure = [c for k, c in enumerate(result["confidence"]) if c > 0.9 and k not in result["left_out"]]
    count = len(result["confidence"])
    as_it_was = result["unchanged"] and "accuracy" not in result and result["energy"] is not None
    told = [f"{counted(count, 'tile')} ({result['grid']}) in {took}"]
    told[0] += "." if as_it_was else f"; {len(sure)} of them placed with confidence above 0.9."
    if count == 1:
        told.append(
            "One tile is no puzzle: to cut a picture into tiles, give the picture itself, --grid and --shuffle."
        )
    if as_it_was:
        told.append(
            f"The picture came back as it was: cut {result['grid']}, every tile stands where it fits best. If it is shuffled, "
            "its tiles are others: leave --grid out to find them. If it is whole, add --shuffle."
        )
    if result["changed"]:
        told.append(f"The picture was {result['changed']}.")
    if result["energy"] is None:
        told.append(
            f"Nothing was solved ({result['status']}): it ended before the tiles had been compared, and they stand as they came."
        )
    elif result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    empty = result["order"].count(-1)
    if empty:
        told.append(
            f"{counted(empty, 'place')} of {len(result['order'])} {'stays' if empty == 1 else 'stay'} empty: no tile fits there."
        )
    if alone := result["left_out"]:
        told.append(
            f"{counted(len(alone), 'tile')} {'is' if len(alone) == 1 else 'are'} left out ({first_few(alone)}), see {out / 'left-out.png'}."
        )
    if result["gap"]:
        told.append(f"Taken to lack {counted(result['gap'], 'pixel')} at each edge.")
    if "turns" in result:
        told.append(GUESSED)
    if "accuracy" in result:
        scores = result["accuracy"]
        told.append(f"In place: {scores['direct']:.1%}; right neighbours: {scores['neighbour']:.1%}.")
        if scores.get("quarter turns to upright"):
            told[-1] += f" The whole picture lacks {scores['quarter turns to upright']} quarter turns."
    if "polished" in result:
        told.append(f"Polish: energy {result['energy']:.6g} -> {result['polished']['energy']:.6g}.")
        if "accuracy" in result["polished"]:
            told[-1] += f" In place: {result['polished']['accuracy']['direct']:.1%}."
    told.append(f"Look at {out / 'before-after.png'}; the picture is {out / 'reassembled.png'}.")
    return told


FINEST = 800  # pixels of a panel's longer side


def picture_of(box: Box, grid: Grid, solution: Solution) -> Figure:
    """Before, after and confidence, side by side."""
    import torch
    from matplotlib.figure import Figure

    from ..readers.pictures import shown
    from ..tasks.jigsaw import join

    order = solution.best_order
    high, wide = box.tiles.shape[1:3]
    finer = max(1, min(max(high * grid.height, wide * grid.width) // FINEST, high // 2, wide // 2))
    tiles = box.tiles[:, ::finer, ::finer]  # as fine as a panel can show
    before = shown(side_by_side(tiles, grid.width))
    after = shown(join(tiles, order, grid, solution.best_state))
    height, width = after.shape[:2]
    tall = min(max(3.4 * height / width, 1.2), 9.0)
    figure = Figure(figsize=(11.5, tall + 0.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, pixels, title in zip(panels[:2], (before, after), ("before", "after"), strict=True):
        axes.imshow(pixels)
        axes.set_title(title)
    panels[2].imshow(
        after.mean(axis=2) if after.shape[2] == 3 else after[..., :3].mean(axis=2), cmap="gray", vmin=0, vmax=255
    )
    sure = torch.where(order >= 0, solution.confidence[order], torch.nan).reshape(grid.height, grid.width).numpy()
    layer = panels[2].imshow(
        sure, cmap="RdYlGn", vmin=0, vmax=1, alpha=0.6, extent=(-0.5, width - 0.5, height - 0.5, -0.5)
    )
    panels[2].set_title("confidence")
    figure.colorbar(layer, ax=panels[2], shrink=0.85)
    for axes in panels:
        axes.set_axis_off()
    return figure
