"""A callback for `fit`: TensorBoard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import BadInput
from .loop import Moment


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
