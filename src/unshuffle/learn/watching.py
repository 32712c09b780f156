"""Callbacks for `fit`: a progress bar on a terminal, TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BadInput
from .loop import Moment


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Callable[[Moment], None]]:
    """Loss, entropy, range of beta, held-out loss and time left on standard error; vanishes where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        epochs: list[str] = [""]

        def show(moment: Moment) -> None:
            if moment.record is not None:
                epochs[0] = summary(moment.record)
            steps = moment.steps or moment.step
            done = (moment.epoch * steps + moment.step) / steps
            text = f"epoch {moment.epoch + 1}/{moment.epochs}  loss {moment.loss:.4g}{epochs[0]}"
            bar.update(task, description=text, completed=done, total=moment.epochs)

        yield show


def summary(record: dict) -> str:
    """The numbers of an epoch in a few words."""
    parts = []
    if "row_entropy_mean" in record:
        parts.append(
            f"entropy {record['row_entropy_mean']:.3f}  beta {record['beta_min']:.3g}-{record['beta_max']:.3g}"
        )
    if "held_out" in record:
        parts.append(f"held out {record['held_out']:.4g}")
    return "".join(f"  {part}" for part in parts)


def tensorboard(folder: Path) -> Callable[[Moment], None]:
    """Every number of every epoch, for `tensorboard --logdir folder`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise BadInput("TensorBoard is not installed: pip install tensorboard.") from error
    writer = SummaryWriter(str(folder))

    def note(moment: Moment) -> None:
        if moment.record is not None:
            for name, value in moment.record.items():
                if name != "epoch" and isinstance(value, (int, float)):
                    writer.add_scalar(name, value, moment.epoch)
            writer.flush()

    return note
