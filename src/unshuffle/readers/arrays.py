"""Arrays that numpy has saved, .npy and .npz."""

from __future__ import annotations

import zlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from ..errors import BadInput


def read_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a .npy, those of an .npz by their names; objects, which only pickle can read, are refused as what is damaged is."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            return found if isinstance(found, np.ndarray) else dict(found)
    except (ValueError, EOFError, BadZipFile, NotImplementedError, zlib.error):
        raise BadInput(f"{path} cannot be read as numbers that numpy has saved.") from None
