"""A folder of pictures: which to learn from, to choose by, to measure on, and whether they fit into memory."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import BadInput
from ..readers.pictures import ENDINGS
from .puzzles import Pictures
from .streams import OnDisk

MOST_HELD_OUT, MOST_TEST = 100, 195  # pictures, the last ones by name; at most a tenth and a fifth of the folder
LEAST = 10  # pictures in a folder, so that there is one to choose by
MOST_IN_MEMORY = 5_000  # pictures; they take four times their size once cut
CELEBA = "img_align_celeba"  # where its pictures lie, and beside it:
PARTITION = ("list_eval_partition.txt", "list_eval_partition.csv")  # file and 0, 1 or 2: train, validation, test
LOOKED_AT = 1_000  # of the official validation pictures, after every epoch

Files = Sequence[Path]


@dataclass(frozen=True)
class Split:
    """Pictures to learn from, to choose the epoch by, and to measure on."""

    train: Pictures | OnDisk
    held_out: Pictures | OnDisk
    test: Pictures | OnDisk


@lru_cache(maxsize=2)  # a run asks for its pictures three times
def read_folder(folder: Path, pixels: int, most: int | None = None) -> Split:
    """The pictures of a folder by name, scaled to `pixels` x `pixels`; `most` of them, evenly spread.

    CelebA is split as its own list says, other folders by name. Large collections stay on disk.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder of pictures.")
    where = folder / CELEBA if (folder / CELEBA).is_dir() else folder
    files = sorted(f for f in where.iterdir() if f.suffix.lower() in ENDINGS)
    if most is not None and most < len(files):
        files = [files[k * len(files) // most] for k in range(most)]
    if len(files) < LEAST:
        raise BadInput(f"Training needs a folder of at least {LEAST} pictures, but {folder} holds {len(files)}.")
    lists = [beside / name for beside in (folder, folder.parent) for name in PARTITION]
    official = next((path for path in lists if path.is_file() and where.name == CELEBA), None)
    parts = by_name(files) if official is None else by_list(files, official)
    on_disk = [OnDisk(tuple(part), pixels) for part in parts]
    return Split(*on_disk) if len(files) > MOST_IN_MEMORY else Split(*(part[:] for part in on_disk))


def by_name(files: Files) -> tuple[Files, Files, Files]:
    """The last ones are for testing, those before them to choose by."""
    test, held_out = min(MOST_TEST, len(files) // 5), min(MOST_HELD_OUT, len(files) // 10)
    train = len(files) - test - held_out
    return files[:train], files[train : train + held_out], files[train + held_out :]


def by_list(files: Files, path: Path) -> tuple[Files, Files, Files]:
    """As CelebA's list has it: lines `000001.jpg 0`, or with a comma and a head."""
    with path.open(newline="") as lines:
        cells = csv.reader((line.replace(",", " ") for line in lines), delimiter=" ", skipinitialspace=True)
        part = {row[0]: row[1] for row in cells if len(row) >= 2}
    train, held_out, test = ([file for file in files if part.get(file.name) == which] for which in "012")
    if not (train and held_out and test):
        counts = f"{len(train)}, {len(held_out)} and {len(test)}"
        raise BadInput(
            f"{path} puts {counts} of the pictures into training, validation and test: some of each are needed."
        )
    return train, held_out[:LOOKED_AT], test
