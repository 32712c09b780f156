"""``unshuffle jigsaw FOLDER --jobs N``: a folder of puzzles, each put together in a process of its own or on a Ray cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..compute.processes import Processes
from ..errors import BadInput
from ..files import write_together
from .common import errors, harmless, json_text, one_of, sentence, table_text
from .options import Usual
from .results import JSON, write_results

COLUMNS = ("puzzle", "status", "grid", "tiles", "left out", "confidence", "in place", "neighbours", "seconds", "error")


@dataclass(frozen=True)
class PuzzleJob:
    """A puzzle and what was asked for. With its ``content``, the files by their names, it needs no common disk."""

    name: str
    path: Path
    options: dict[str, Any]
    content: dict[str, bytes] | None = None

    def unpacked(self, folder: Path) -> Path:
        """Where the puzzle lies."""
        if self.content is None:
            return self.path
        for name, data in self.content.items():
            place = folder / "input" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        return folder / "input" / self.path.name

    def packed(self) -> PuzzleJob:
        """The same with its content."""
        files = pictures_of(self.path) if self.path.is_dir() else [self.path]
        content = {str(file.relative_to(self.path.parent)): file.read_bytes() for file in files}
        return PuzzleJob(self.name, self.path, self.options, content)


def pictures_of(folder: Path) -> list[Path]:
    from ..readers.pictures import pictures_in  # not with the module: help answers at once

    return pictures_in(folder)


def puzzles_in(folder: Path, many: bool) -> dict[str, Path]:
    """The folders in it that hold pictures, if it holds none itself; if there are ``many``, these and its own pictures, each a puzzle."""
    if not folder.is_dir():
        return {}
    own = pictures_of(folder)
    if own and not many:
        return {}
    found = [f for f in sorted(folder.iterdir()) if f.is_dir() and not f.name.startswith(".") and pictures_of(f)] + own
    stems = [f.name if f.is_dir() else f.stem for f in found]
    return {f.name if stems.count(stem) > 1 else stem: f for f, stem in zip(found, stems, strict=True)}


def put_many_together(
    puzzles: dict[str, Path], options: dict[str, Any], jobs: int | None, on: tuple[str, str | None], usual: Usual
) -> None:
    """Each into its own folder; those that are there, made with the same options, are not computed again."""
    one_of("--executor", on[0], ("local", "ray"))
    options, out = options | {"seed": usual.seed, "time_limit": usual.time_limit}, usual.out
    asked = {name: value for name, value in options.items() if name != "time_limit"}
    results = {name: done for name, path in puzzles.items() if (done := done_before(path, out / name, asked))}
    missing = [PuzzleJob(name, path, options) for name, path in puzzles.items() if name not in results]
    with shown(len(puzzles), len(results), usual.silent) as tell:

        def told(job: PuzzleJob, found: dict[str, bytes] | str | BaseException) -> None:
            if isinstance(found, dict):
                result = json.loads(found[JSON]) | {"input": str(job.path), "options": asked}
                write_results(out / job.name, {name: data for name, data in found.items() if name != JSON}, result)
            else:
                said = found if isinstance(found, str) else f"{type(found).__name__}: {found}"
                result = {"input": str(job.path), "status": "interrupted" if said == INTERRUPTED else "error", "error": said}  # fmt: skip
            results[job.name] = result
            tell(job.name, result)

        try:
            if on[0] == "ray":
                from ..compute.cluster import Tasks

                Tasks(on[1])(put_one_together, (job.packed() for job in missing), told)
            elif missing:
                workers = min(jobs or os.cpu_count() or 1, len(missing))
                Processes(workers)(put_one_together, missing, told)
        finally:  # after Ctrl-C too
            summary = {name: results.get(name, {"status": "not done"}) for name in puzzles}
            write_together({out / "summary.csv": table_text(table(summary)), out / "summary.json": json_text({"puzzles": brief(summary)})})  # fmt: skip
    finish(brief(summary), out, usual.json_, usual.quiet)


INTERRUPTED = "It was interrupted."


def put_one_together(job: PuzzleJob) -> dict[str, bytes] | str:
    """The files that the command writes for one puzzle, or why there are none. In another process, or on another machine."""
    from .jigsaw import jigsaw

    with TemporaryDirectory() as folder:
        out, options = Path(folder) / "output", dict(job.options)
        usual = Usual(out, options.pop("seed"), options.pop("time_limit"), quiet=True)
        try:
            jigsaw(job.unpacked(Path(folder)), **options, usual=usual)
        except (BadInput, OSError, MemoryError) as error:
            return sentence(error)
        except typer.Exit:
            return INTERRUPTED
        return {file.name: file.read_bytes() for file in out.iterdir()}


def done_before(puzzle: Path, out: Path, asked: dict[str, Any]) -> dict[str, Any] | None:
    """What an earlier call found, if it was asked for the same and the puzzle has not changed since."""
    try:
        result = json.loads((out / JSON).read_text())
        inputs = [puzzle, *(pictures_of(puzzle) if puzzle.is_dir() else ())]
        fresh = max(f.stat().st_mtime for f in inputs) <= (out / JSON).stat().st_mtime
    except (OSError, ValueError):
        return None
    return result if fresh and result.get("options") == asked and result.get("status") == "finished" else None


class shown:
    """A bar on a terminal, a line per puzzle in a log."""

    def __init__(self, total: int, done: int, silent: bool) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.silent, self.done, self.total = silent, done, total
        self.bar = Progress(*columns, console=errors, transient=True, disable=silent or not errors.is_terminal)
        self.task = self.bar.add_task("", total=total, completed=done)

    def __enter__(self) -> shown:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, name: str, result: dict[str, Any]) -> None:
        self.done += 1
        self.bar.update(self.task, advance=1, description=harmless(name))
        if not self.silent:
            said = result.get("error") or f"{result.get('grid', '')}  {result.get('seconds', 0):.1f} s"
            line = f"[{self.done}/{self.total}] {name}: {said}"
            self.bar.console.print(harmless(line), markup=False, soft_wrap=True)


def brief(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry per puzzle, without the long lists."""
    return [
        {"puzzle": name} | {key: value for key, value in result.items() if key == "left_out" or not (key == "sets" or isinstance(value, list))}
        | _counts(result)
        for name, result in results.items()
    ]  # fmt: skip


def _counts(result: dict[str, Any]) -> dict[str, Any]:
    pictures = result.get("pictures")
    if pictures is not None:
        sure = [c for one in pictures for c in one["confidence"] if c is not None]
        return {"grid": " ".join(one["grid"] for one in pictures), "tiles": len(sure), "confidence": _mean(sure)}
    sure = result.get("confidence", [])
    return {"tiles": len(sure), "confidence": _mean(sure)} if sure else {}


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def table(results: dict[str, dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    yield COLUMNS
    for one in brief(results):
        scores = one.get("accuracy", {})
        values = {"left out": len(one.get("left_out", [])), "in place": scores.get("direct"), "neighbours": scores.get("neighbour")}  # fmt: skip
        yield tuple("" if (value := values.get(column, one.get(column))) is None else value for column in COLUMNS)


def finish(puzzles: list[dict[str, Any]], out: Path, json_: bool, quiet: bool) -> None:
    """Says what came of it; the exit code is 1 if any puzzle failed, 130 if it was interrupted."""
    from .common import INTERRUPTED as STOPPED

    failed = [one for one in puzzles if one["status"] == "error"]
    stopped = [one for one in puzzles if one["status"] in ("interrupted", "not done")]
    if json_:
        typer.echo(json_text({"puzzles": puzzles}), nl=False)
    elif not quiet:
        for one in failed:
            typer.echo(harmless(f"Failed: {one['puzzle']}: {one['error']}"))
        done = len(puzzles) - len(failed) - len(stopped)
        typer.echo(f"{done} of {len(puzzles)} puzzles put together. Look at {out / 'summary.csv'}.")
    if stopped:
        raise typer.Exit(STOPPED)
    if failed:
        raise typer.Exit(1)
