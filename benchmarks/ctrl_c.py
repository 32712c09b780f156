"""Ctrl-C at several moments of every command: seconds until it has ended, and whether what was found by then is written.

    python benchmarks/ctrl_c.py [--only NAME ...] [--moments 0.15,0.5,0.85] [--out results/ctrl_c.json]

Every command is run to its end once, with kernels compiled before ("warm") and in a folder without any ("cold", as in the first run
ever); then again, and pressed at these shares of that time. Inputs are made here. Time it on an idle machine: the load is stored,
and the seconds of work that a core spent on it, which others do not lengthen.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unshuffle.files import write_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--moments", type=lambda text: [float(x) for x in text.split(",")], default=[0.15, 0.5, 0.85])
    parser.add_argument("--kernels", choices=("both", "warm", "cold"), default="both")
    parser.add_argument("--out", type=Path, default=Path("results", "ctrl_c.json"))
    given = parser.parse_args()
    told = json.loads(given.out.read_text()) if given.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, command in inputs(Path(folder)).items():
            if given.only and name not in given.only:
                continue
            for cold in (False, True) if given.kernels == "both" else (given.kernels == "cold",):
                key = f"{name}, {'cold' if cold else 'warm'}"
                told[key] = [
                    pressed(command, Path(folder), cold, moment)
                    for moment in whole(command, folder, cold, given.moments)
                ]
                for row in told[key]:
                    print(f"{key:>28}: " + ", ".join(f"{k} {v}" for k, v in row.items()), flush=True)
                write_atomic(given.out, json.dumps(told, indent=1) + "\n")
    worst = {key: max((row["until the end"] for row in rows if row["exit"]), default=0.0) for key, rows in told.items()}
    print("\n".join(f"{key:>28}: at most {seconds:.2f} s" for key, seconds in worst.items()))


def inputs(folder: Path) -> dict[str, list[str]]:
    """A command each, on something that takes some seconds."""
    random = np.random.default_rng(0)
    with as_file(files("unshuffle") / "data" / "coffee.jpg") as photo, Image.open(photo) as picture:
        large = np.asarray(picture.convert("RGB").resize((4000, 3000))).astype(int)
    noisy = (large + random.integers(-6, 7, large.shape)).clip(0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(folder / "photo.jpg", quality=92)
    (folder / "slices").mkdir()
    for k in range(160):
        Image.fromarray(noisy[10 * k : 10 * k + 800 : 8, 5 * k : 5 * k + 800 : 8]).save(
            folder / "slices" / f"{k * 67 % 160:03d}.png"
        )
    (folder / "strips").mkdir()
    for k, strip in enumerate(np.array_split(noisy[::3, ::3], 40, axis=1)):
        Image.fromarray(strip).save(folder / "strips" / f"{k * 17 % 40:03d}.png")
    along = random.random(200)
    waves = np.stack([np.sin(3 * k * along + k) for k in range(12)], 1) + 0.05 * random.standard_normal((200, 12))
    table(folder / "table.csv", [f"c{k}" for k in range(12)], waves)
    table(folder / "cities.csv", ["x", "y"], random.random((300, 2)))
    table(folder / "few.csv", ["x", "y"], random.random((150, 2)))
    crossed = (np.cumsum(random.random((200, 600)) < 0.02, 1) + random.integers(0, 2, (200, 1))) % 2
    with (folder / "genotypes.csv").open("w") as file:
        file.write(",".join(["id", *(f"m{k}" for k in random.permutation(600))]) + "\n")
        file.writelines(f"{k}," + ",".join("AA" if x else "AB" for x in row) + "\n" for k, row in enumerate(crossed))
    apart = np.abs(np.arange(400)[:, None] - np.arange(400))
    contacts = random.poisson(200 / (1 + apart))
    shuffled = random.permutation(400)
    np.save(folder / "contacts.npy", (contacts + contacts.T)[shuffled][:, shuffled])
    return {
        "jigsaw": ["jigsaw", "photo.jpg", "--grid", "40x30", "--shuffle"],
        "jigsaw, turned": ["jigsaw", "photo.jpg", "--grid", "20x15", "--shuffle", "--turned"],
        "strips": ["strips", "strips"],
        "tour": ["tour", "cities.csv"],
        "seriate": ["seriate", "table.csv"],
        "hic": ["hic", "contacts.npy"],
        "markers": ["markers", "genotypes.csv"],
        "slices": ["slices", "slices"],
        "match": ["match", "few.csv", "few.csv"],
        "train": ["train", "sorting", "--epochs", "3"],
    }


def table(file: Path, header: list[str], values: np.ndarray) -> None:
    np.savetxt(file, values, delimiter=",", header=",".join(header), comments="", fmt="%.6f")


def whole(command: list[str], folder: str | Path, cold: bool, moments: list[float]) -> list[float]:
    """Seconds after which to press: shares of what it takes to the end."""
    if not cold:
        run(command, Path(folder), False, None)  # compiled now, if it was not
    seconds = run(command, Path(folder), cold, None)["seconds"]
    return [share * seconds for share in moments]


def pressed(command: list[str], folder: Path, cold: bool, moment: float) -> dict[str, Any]:
    found = run(command, folder, cold, moment)
    return {
        "pressed after": round(moment, 2),
        "during": found["stage"],
        "until the end": round(found["seconds"] - moment, 2),
        "work": round(found["work"], 2),
        "exit": found["exit"],
        "files": found["files"],
        "load": round(os.getloadavg()[0], 1),
    }


def run(command: list[str], folder: Path, cold: bool, moment: float | None) -> dict[str, Any]:
    """One command in a terminal of its own, as a person has it; Ctrl-C goes to all its processes."""
    with tempfile.TemporaryDirectory() as scratch:
        out, environment = Path(scratch, "out"), os.environ | {"COLUMNS": "100", "TERM": "xterm"}
        if cold:
            environment["NUMBA_CACHE_DIR"] = str(Path(scratch, "kernels"))
        mine, theirs = os.openpty()
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "unshuffle", *command, "--out", str(out)],
            cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        screen: list[bytes] = []
        reader = threading.Thread(target=read, args=(mine, screen))
        reader.start()
        stage, before = "", 0.0
        if moment is not None:
            time.sleep(max(0.0, began + moment - time.perf_counter()))
            stage = last_line(b"".join(screen))
            before = worked(process.pid)
            os.killpg(process.pid, signal.SIGINT)  # one that has ended but was not waited for yet is still there
        _, status, used = os.wait4(process.pid, 0)
        seconds, code = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
        process.returncode = code
        reader.join()
        os.close(mine)
        if moment is None and code:
            raise SystemExit(f"unshuffle {' '.join(command)} failed: {last_line(b''.join(screen))}")
        written = sorted(p.name for p in out.rglob("*") if p.is_file()) if out.exists() else []
        for name in (name for name in written if name.endswith(".json")):
            json.loads(next(out.rglob(name)).read_text())  # whole, or this raises
        work = used.ru_utime + used.ru_stime - before
        return {"seconds": seconds, "work": work, "exit": code, "stage": stage, "files": len(written)}


def worked(process: int) -> float:
    """Core seconds so far."""
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def read(terminal: int, screen: list[bytes]) -> None:
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            return
        if not part:
            return
        screen.append(part)


def last_line(screen: bytes) -> str:
    """What the screen said last, without colours and movements; the name of the stage is its beginning."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.decode(errors="replace"))
    lines = [line.strip() for line in re.split(r"[\r\n]+", plain) if line.strip()]
    return lines[-1][:40] if lines else ""


if __name__ == "__main__":
    main()
