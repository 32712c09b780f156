"""Contacts of a genome with itself (Hi-C): .cool and .mcool files, or a square matrix as .npy, .npz or a table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..errors import BadInput
from .arrays import read_arrays
from .cells import read_cells
from .tables import read_table

LABELS = (
    "contig",
    "contigs",
)  # names of the array of an .npz that says which bin is of which contig, or of the column of a table
MATRICES = ("contacts", "matrix", "counts", "all")  # names of the matrix where there are several


@dataclass(frozen=True, eq=False)
class Contacts:
    """How often every bin of a genome met every other, and which bins are known to stand together."""

    counts: Float[np.ndarray, "n n"]
    """Symmetric, not negative; NaN where a bin could not be measured."""
    bins: list[str]
    contig: Int[np.ndarray, "n"]
    """The contig of every bin; bins of one contig stand together, in their order."""
    contigs: list[str]
    lengths: Int[np.ndarray, "contigs"]
    """In base pairs; in bins where the file does not say."""
    resolution: int = 1
    """Base pairs of a bin; 1 where the file does not say."""
    balanced: bool = False
    """Whether bins are comparable: the file brought weights, or its contacts are no whole numbers."""


def read_contacts(
    path: str | FilePath, *, contigs: str | FilePath | None = None, resolution: int | None = None, apart: bool = False
) -> Contacts:
    """``contigs``: a table with the contig of every bin in its last column; ``apart`` takes all bins as single ones."""
    path = FilePath(path)
    if path.suffix.lower() in (".cool", ".mcool"):
        found = _cool(path, resolution)
    else:
        counts, bins, labels = _matrix(path)
        counts = _checked(counts, path)
        whole = bool((np.round(counts) == counts).all())
        found = _labelled(counts, bins, labels, resolution or 1, balanced=not whole)
    if contigs is not None:
        labels = _titled([row[-1] for row in read_cells(contigs).body])
        if len(labels) != len(found.bins):
            raise BadInput(f"{contigs} has {len(labels)} rows, but {path} has {len(found.bins)} bins; one row per bin.")
        found = _labelled(found.counts, found.bins, labels, found.resolution, found.balanced)
    if apart:
        found = _labelled(found.counts, found.bins, None, found.resolution, found.balanced)
    if len(found.bins) < 3:
        raise BadInput(f"{path} has {len(found.bins)} bins; an order needs at least three.")
    return found


def _titled(labels: list[str]) -> list[str]:
    """Without the title above them: names over names look alike, so that no reader of cells can tell."""
    return labels[1:] if labels[:1] and labels[0].lstrip("# ").casefold() in LABELS else labels


def _labelled(
    counts: np.ndarray, bins: list[str] | None, labels: Any, resolution: int, balanced: bool = False
) -> Contacts:
    """Bins with the names of their contigs, which must stand together; without names every bin is on its own."""
    bins = bins or [f"bin{k + 1}" for k in range(len(counts))]
    if labels is None:
        size = np.full(len(bins), resolution, np.int64)
        return Contacts(counts, bins, np.arange(len(bins)), bins, size, resolution, balanced)
    names = [str(label) for label in labels]
    starts = [0, *(k for k in range(1, len(names)) if names[k] != names[k - 1])]
    order = [names[k] for k in starts]
    if len(set(order)) < len(order):
        twice = next(name for name in order if order.count(name) > 1)
        raise BadInput(f"The bins of contig {twice!r} do not stand together; put the bins of a contig in their order.")
    sizes = np.diff([*starts, len(names)])
    return Contacts(
        counts, bins, np.repeat(np.arange(len(order)), sizes), order, sizes * resolution, resolution, balanced
    )


def _matrix(path: FilePath) -> tuple[np.ndarray, list[str] | None, Any]:
    """The numbers, names of the bins and of their contigs, as far as the file has them."""
    if path.suffix.lower() in (".npy", ".npz"):
        arrays: Any = read_arrays(path)
        if isinstance(arrays, np.ndarray):
            return arrays, None, None
        if {"indices", "indptr", "format", "shape"} <= set(arrays):
            from scipy.sparse import load_npz

            return load_npz(path).toarray(), None, None
        square = [name for name, a in arrays.items() if a.ndim == 2 and a.shape[0] == a.shape[1] > 1]
        known = [name for name in MATRICES if name in square] or square
        if len(known) != 1 and not (known and known[0] in MATRICES):
            raise BadInput(f"{path} has {len(square)} square matrices; call the one to use contacts.")
        n = len(arrays[known[0]])
        label = next((arrays[name] for name in LABELS if name in arrays and arrays[name].shape == (n,)), None)
        return arrays[known[0]], None, label
    table = read_table(path)
    return table.values, table.rows if table.named_by else None, None


def _checked(counts: np.ndarray, path: FilePath) -> Float[np.ndarray, "n n"]:
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise BadInput(f"{path} must hold a square matrix of contacts, not one of shape {tuple(counts.shape)}.")
    try:
        counts = np.asarray(counts, np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{path} must hold numbers of contacts, not {np.asarray(counts).dtype}.") from None
    if np.isinf(counts).any() or (counts < 0).any():
        raise BadInput(f"{path}: contacts must be finite and not negative; missing ones may be NaN.")
    if np.triu(counts, 1).any() and not np.tril(counts, -1).any():  # one half is enough
        counts = np.triu(counts) + np.triu(counts, 1).T
    if not np.allclose(counts, counts.T, rtol=1e-4, equal_nan=True):
        raise BadInput(f"{path}: contacts must be symmetric; a bin meets another as often as that one meets it.")
    return (counts + counts.T) / 2


def _cool(path: FilePath, resolution: int | None) -> Contacts:
    """One resolution of a file of the cooler format: bins, counts of pairs of bins, weights if it was balanced."""
    try:
        import h5py
    except ImportError:
        raise BadInput(f"{path} needs h5py: pip install 'unshuffle[hic]', or export a matrix as .npz or CSV.") from None
    if not path.exists():
        raise FileNotFoundError(2, "No such file", str(path))
    try:
        file = h5py.File(path, "r")
    except OSError:
        raise BadInput(f"{path} is not an HDF5 file, as .cool files are.") from None
    with file:
        group: Any = _one_resolution(file, path, resolution)
        try:
            names = [name.decode() if isinstance(name, bytes) else str(name) for name in group["chroms/name"][:]]
            lengths, chrom = np.asarray(group["chroms/length"][:]), np.asarray(group["bins/chrom"][:], np.int64)
            start, end = group["bins/start"][:], group["bins/end"][:]
            first, second, count = (group[f"pixels/{name}"][:] for name in ("bin1_id", "bin2_id", "count"))
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise BadInput(f"{path} is not a .cool file, or is damaged: {error.args[0]}") from None
        weight = group["bins/weight"][:] if "weight" in group["bins"] else None
    counts = np.zeros((len(chrom), len(chrom)))
    counts[first, second] = counts[second, first] = count
    if weight is not None:
        counts *= weight[:, None] * weight[None, :]
    present = np.unique(chrom)
    bins = [f"{names[c]}:{a}-{b}" for c, a, b in zip(chrom, start, end, strict=True)]
    size = int(max(b - a for a, b in zip(start, end, strict=True)))
    number = np.searchsorted(present, chrom)
    if any(b < a for a, b in pairwise(number)):
        raise BadInput(f"{path}: the bins of a chromosome do not stand together.")
    if len(present) == 1:  # one sequence: nothing is known but the bins
        return Contacts(counts, bins, np.arange(len(bins)), bins, np.asarray(end - start), size, weight is not None)
    return Contacts(counts, bins, number, [names[c] for c in present], lengths[present], size, weight is not None)


def _one_resolution(file: Any, path: FilePath, resolution: int | None) -> Any:
    if "resolutions" not in file:
        size = file.attrs.get("bin-size")
        if resolution is not None and isinstance(size, (int, np.integer)) and size != resolution:
            raise BadInput(f"{path} has bins of {size} base pairs, not of {resolution}; leave --resolution out.")
        return file
    there = sorted(map(int, file["resolutions"]))
    if resolution is None and len(there) == 1:
        resolution = there[0]
    if resolution not in there:
        raise BadInput(f"{path} has the resolutions {', '.join(map(str, there))}; choose one with --resolution.")
    return file[f"resolutions/{resolution}"]
