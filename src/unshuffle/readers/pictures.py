"""Pictures from files: any mode and depth that pillow reads, as arrays of 8 or 16 bits; tiles from folders."""

from __future__ import annotations

import io
import re
import struct
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from ..errors import BadInput

MOST_PIXELS = 80_000_000  # a picture of this size takes 1 GB as float32 while it is cut; larger ones are refused unread
LARGE = 4_000_000  # pixels
DAMAGED = (OSError, SyntaxError, ValueError, EOFError, TypeError, LookupError, struct.error)  # what pillow raises at it
ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".heic", ".heif"}
)


def read_picture(path: Path) -> np.ndarray:
    """(height, width, channels) of uint8 or uint16: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha.

    Turned upright as EXIF says; palettes become colours; an alpha channel that hides nothing is dropped. Floats and integers that do
    not fit are stretched to 16 bits.
    """
    return read_pictures([path])[0]


def read_pictures(paths: Iterable[Path]) -> list[np.ndarray]:
    """Each as `read_picture` gives it; what must be stretched is stretched alike, so that shades of one picture stay those of the next."""
    return _stretched([_pixels(open_picture(path)) for path in paths])


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder in natural order of their names (tile2 before tile10); hidden files are passed over."""
    found = (f for f in folder.iterdir() if f.suffix.lower() in ENDINGS and not f.name.startswith(".") and f.is_file())
    return sorted(found, key=natural)


def read_pages(path: Path) -> list[np.ndarray]:
    """All pages of a TIFF, all frames of a GIF, each as `read_picture` gives a picture."""
    open_picture(path)
    pages: list[np.ndarray] = []
    try:
        with warnings.catch_warnings(), Image.open(path) as picture:
            warnings.simplefilter("ignore", UserWarning)  # of metadata that cannot be read
            if picture.width * picture.height * getattr(picture, "n_frames", 1) > 10 * MOST_PIXELS:
                raise BadInput(
                    f"{path} has more than {MOST_PIXELS // 100_000} million pixels in all; scale it down first."
                )
            pages += [_pixels(page.copy()) for page in ImageSequence.Iterator(picture)]
    except DAMAGED as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} is damaged and cannot be read: {error}.") from None
    return _stretched(pages)


def open_picture(path: Path) -> Image.Image:
    """The whole picture as pillow reads it, turned upright as EXIF says; too large, damaged and other files are one sentence."""
    path = Path(path)
    if path.is_dir():
        raise BadInput(f"{path} is a folder, but one picture was expected.")
    if path.suffix.lower() in (".heic", ".heif"):
        _read_heic(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as picture:
                if picture.width * picture.height > MOST_PIXELS:
                    raise BadInput(_too_large(path))
                picture.load()
                return ImageOps.exif_transpose(picture)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise BadInput(_too_large(path)) from None
    except UnidentifiedImageError:
        raise BadInput(f"{path} is not a picture that can be read.") from None
    except (FileNotFoundError, PermissionError):
        raise
    except DAMAGED as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} is damaged and cannot be read: {error}.") from None


def _read_heic(path: Path) -> None:
    """Teach pillow the pictures of phones, if what reads them is installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise BadInput(
            f"{path} is a HEIC picture: pip install 'unshuffle[heic]' to read it, or save it as JPEG or PNG first."
        ) from None
    register_heif_opener()


def _too_large(path: Path) -> str:
    return f"{path} has more than {MOST_PIXELS // 1_000_000} million pixels; scale it down first."


def _pixels(picture: Image.Image) -> np.ndarray:
    mode = picture.mode
    if mode.startswith("I") or mode == "F":
        return np.asarray(picture)[..., None]
    if mode == "P" or "transparency" in picture.info:
        picture = picture.convert("RGBA")
    elif mode in ("1", "L"):
        picture = picture.convert("L")
    elif mode in ("La", "LA"):
        picture = picture.convert("LA")
    elif mode not in ("RGB", "RGBA"):
        picture = picture.convert("RGB")
    array = np.asarray(picture)
    array = array.reshape(*array.shape[:2], -1)
    if array.shape[2] in (2, 4) and (array[..., -1] == 255).all():
        array = array[..., :-1]
    return np.ascontiguousarray(array)


def _stretched(pictures: list[np.ndarray]) -> list[np.ndarray]:
    """Pictures of 8 and 16 bits as they are; wider integers and floats in 16 bits, from the least to the largest of all if they do not fit."""
    wide = {
        k: np.nan_to_num(p.astype(np.float64)) for k, p in enumerate(pictures) if p.dtype not in (np.uint8, np.uint16)
    }
    if not wide:
        return pictures
    low, high = min(float(p.min()) for p in wide.values()), max(float(p.max()) for p in wide.values())
    if any(pictures[k].dtype.kind == "f" for k in wide) or low < 0 or high > 65535:
        wide = {k: (p - low) / max(high - low, 1e-30) * 65535 for k, p in wide.items()}
    return [wide[k].astype(np.uint16) if k in wide else p for k, p in enumerate(pictures)]


def read_tiles(folder: Path) -> tuple[np.ndarray, list[str]]:
    """All pictures of a folder in natural order of their names (tile2 before tile10): (n, height, width, channels), names."""
    files = _tiles_in(folder)
    return _stacked(files, read_pictures(files))


def read_turned_tiles(folder: Path) -> tuple[np.ndarray, list[str], np.ndarray]:
    """The same of tiles of which some may lie on their side: these are turned to the shape that most have, and the quarter turns by which
    each was come third. Of square ones nobody knows, and none is turned."""
    files = _tiles_in(folder)
    pixels = read_pictures(files)
    shapes = Counter(tile.shape[:2] for tile in pixels)
    most = shapes.most_common(1)[0][0]
    lain = np.array([int(tile.shape[:2] == most[::-1] != most) for tile in pixels])
    return *_stacked(files, [np.rot90(tile, k) for tile, k in zip(pixels, lain, strict=True)]), lain


def _tiles_in(folder: Path) -> list[Path]:
    files = pictures_in(Path(folder))
    if not files:
        raise BadInput(f"{folder} holds no pictures; tiles may be {', '.join(sorted(ENDINGS))}.")
    return files


def _stacked(files: list[Path], pixels: list[np.ndarray]) -> tuple[np.ndarray, list[str]]:
    for file, tile in zip(files, pixels, strict=True):
        if tile.shape[:2] != pixels[0].shape[:2]:
            height, width = tile.shape[:2]
            first = f"{pixels[0].shape[1]}x{pixels[0].shape[0]}"
            side = "; jigsaw --turned takes tiles that lie on their side" * (pixels[0].shape[:2] == (width, height))
            raise BadInput(
                f"Tiles must all have the same size, but {files[0].name} is {first} and {file.name} is {width}x{height}{side}."
            )
    channels = max(tile.shape[2] for tile in pixels)
    deep = any(tile.dtype == np.uint16 for tile in pixels)
    return np.stack([_widened(tile, channels, deep) for tile in pixels]), [file.name for file in files]


def natural(file: Path) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", file.name.lower()) if part]


def _widened(tile: np.ndarray, channels: int, deep: bool) -> np.ndarray:
    """The tile with as many channels and bits as the richest of its folder."""
    if deep and tile.dtype == np.uint8:
        tile = tile.astype(np.uint16) * 257
    full = np.iinfo(tile.dtype).max
    colours, alpha = (
        (tile[..., :-1], tile[..., -1:]) if tile.shape[2] in (2, 4) else (tile, np.full_like(tile[..., :1], full))
    )
    if channels >= 3 and colours.shape[2] == 1:
        colours = np.repeat(colours, 3, axis=2)
    return np.concatenate((colours, alpha), axis=2) if channels in (2, 4) or colours.shape[2] < channels else colours


def png(pixels: np.ndarray) -> bytes:
    """The file of an array as `read_picture` makes them. Colours of 16 bits become 8 (PNG writers of pillow know no other)."""
    if pixels.dtype == np.uint16 and pixels.shape[2] == 1:
        picture = Image.fromarray(pixels[..., 0].astype(np.uint16))
    else:
        shown = (pixels // 257).astype(np.uint8) if pixels.dtype == np.uint16 else pixels
        picture = Image.fromarray(shown[..., 0] if shown.shape[2] == 1 else shown)
    buffer = io.BytesIO()
    # large ones are written three times as fast and a tenth larger
    picture.save(buffer, "PNG", compress_level=6 if picture.width * picture.height < LARGE else 2)
    return buffer.getvalue()


def shown(pixels: np.ndarray) -> np.ndarray:
    """RGB or RGBA of 8 bits, for figures."""
    eight = (pixels // 257).astype(np.uint8) if pixels.dtype == np.uint16 else pixels
    if eight.shape[2] <= 2:
        eight = np.concatenate((np.repeat(eight[..., :1], 3, axis=2), eight[..., 1:]), axis=2)
    return eight
