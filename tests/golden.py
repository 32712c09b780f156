"""The golden file: seeded solves, operators, noise and refusals as they were when ``golden.json`` was recorded.

    python tests/golden.py --check                  every bit; says what differs, exit code 1 if anything does
    python tests/golden.py --check operators        one section alone
    python tests/golden.py --record [section ...]   after a change of bits that was meant

A refactoring leaves ``--check`` as it is. It holds on the machine that recorded: other processors round otherwise, and
``test_golden.py`` therefore compares the same file with tolerances. Record again only when a change of results was meant (a
fault mended, a better algorithm, a sentence reworded), and let the commit say which bits changed and why. Before a refactoring
on another machine, record there first, and leave that file out of the commit.

Only public names are used, so that modules can move. Inputs come from ``torch.rand``, which gives the same bits everywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import operator
import os
import re
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

if os.environ.get("UNSHUFFLE_NUMBA") == "0":
    warnings.simplefilter("ignore")  # that numba is not in use is what was asked for

import unshuffle as us

HERE = Path(__file__).resolve().parent
FILE = HERE / "golden.json"
THREADS = 2  # solves and operators give the same bits with one thread, the matrix products of a network do not


# ---------------------------------------------------------------- inputs


def numbers(name: str, *shape: int, dtype: torch.dtype = torch.float64, spread: float = 1.0) -> Tensor:
    """Uniform in [-spread/2, spread/2], the same for the same name."""
    return spread * (torch.rand(*shape, generator=seeded(name), dtype=dtype) - 0.5)


def seeded(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def hidden(name: str, n: int) -> Tensor:
    """A random order."""
    return torch.rand(n, generator=seeded(f"{name} hidden")).argsort()


def distances(name: str, n: int, askew: float = 0.0) -> Tensor:
    """Distances of points in the plane; ``askew`` adds what depends on the direction."""
    x = numbers(name, n, 2)
    squares = (x[:, None] - x[None]).square()
    return (squares[..., 0] + squares[..., 1]).sqrt() + askew * (numbers(f"{name} askew", n, n) + 0.5)


def seams(name: str, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Costs of a jigsaw with noisy seams: small where two tiles were neighbours, and a little wrong."""
    n = height * width
    place = torch.empty(n, dtype=torch.int64)
    place[hidden(name, n)] = torch.arange(n)
    row, column = place // width, place % width
    across, down = (c[None] - c[:, None] for c in (column, row))
    right = 1.0 - 0.9 * ((across == 1) & (down == 0)).double()
    below = 1.0 - 0.9 * ((down == 1) & (across == 0)).double()
    return right + 0.3 * numbers(f"{name} right", n, n), below + 0.3 * numbers(f"{name} below", n, n)


def mask(name: str, n: int) -> Tensor:
    """Three tenths forbidden, one item anchored, one order possible for certain."""
    order = hidden(f"{name} mask", n)
    allowed = numbers(f"{name} mask", n, n) > -0.2
    allowed[order[0]] = False
    allowed[order, torch.arange(n)] = True
    return allowed


def scores(name: str, n: int) -> Tensor:
    """Where to start: scores that prefer some order."""
    start = numbers(f"{name} init", n, n, dtype=torch.float32)
    start[hidden(f"{name} init", n), torch.arange(n)] += 2.0
    return start


# ---------------------------------------------------------------- how results are written down


def exact(value: float) -> str:
    return float(value).hex()


def tensor(values: Tensor) -> dict[str, Any]:
    """A tensor in little room: the hash of its bytes for ``--check``, sums and a few entries for tolerant comparison."""
    flat = values.detach().contiguous().reshape(-1)
    wide = flat.double()
    return {
        "kind": f"{str(values.dtype).removeprefix('torch.')} {tuple(values.shape)}",
        "bytes": hashlib.sha256(flat.numpy().tobytes()).hexdigest()[:16],
        "sums": [exact(wide.sum()), exact(wide.square().sum())],
        "first": [exact(x) for x in wide[:3]],
    }


def solution(found: us.Solution) -> dict[str, Any]:
    return {
        "order": found.order.tolist(),
        "energy": exact(found.energy),
        "energies": tensor(found.energies),
        "confidence": tensor(found.confidence),
        "agreement": exact(found.agreement),
        "soft": tensor(found.soft),
        "status": found.status,
        "steps": len(found.history),
        "last step": [exact(x) for step in found.history[-1:] for x in (step.beta, step.energy, step.entropy)],
        "polished order": None if found.polished is None else found.best_order.tolist(),
        "polished energy": None if found.polished is None else exact(found.best_energy),
    }


# ---------------------------------------------------------------- solves


def rough(X: Tensor) -> Tensor:
    """A loss of one's own: squared steps, and the first item should be small."""
    return (X[1:] - X[:-1]).square().sum() + 0.1 * X[0].sum()


def problem(kind: str, name: str, n: int) -> tuple[Any, dict[str, Any]]:
    """The problem and its cost or items; ``askew`` in the name makes the cost depend on the direction."""
    askew = 0.4 if "askew" in name else 0.0
    if kind == "grid":
        height = {7: 1, 9: 3, 12: 3, 30: 5}[n]
        return us.Grid(height, n // height), {"cost": seams(name, height, n // height)}
    if kind == "loss":
        return rough, {"items": numbers(name, n, 2, dtype=torch.float32)}
    cost = distances(name, n, askew)
    if kind == "graph":  # far positions weigh most: the cheapest there are the far items, each in its hidden place
        order = hidden(name, n)
        return us.Graph(distances(name, n)[order][:, order]), {"cost": 2.0 - cost}
    return {"path": us.Path, "cycle": us.Cycle}[kind](n), {"cost": cost}


def solves(kind: str, name: str, n: int, **options: Any) -> dict[str, Any]:
    layout, given = problem(kind, name, n)
    if "mask" in name:
        given["allowed"] = mask(name, n)
    if "init" in name:
        given["init"] = scores(name, n)
    return solution(us.solve(layout, polish="polish" in name, **given, **options))


def stop_after(steps: int) -> Callable[[Any], bool]:
    """A callback that says no at this step: the best so far comes back."""
    left = iter(range(steps))
    return lambda step: next(left, None) is not None


VARIANTS = (
    "plain, polish",
    "mask",
    "init",
    "mask, init, polish",
    "askew, polish",
    "askew, mask",
    "askew, init",
    "askew, mask, init, polish",
)


def solve_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    def case(kind: str, variant: str, n: int, **options: Any) -> tuple[str, Callable[[], Any]]:
        name = f"{kind} of {n}, {variant}"
        return name, lambda: solves(kind, name, n, **options)

    few = {"graph": {"runs": 3}, "loss": {"runs": 2}}
    sizes = {"path": 12, "cycle": 12, "graph": 11, "grid": 12, "loss": 8}
    for kind, n in sizes.items():
        for variant in VARIANTS if kind in ("path", "cycle", "graph") else VARIANTS[:4]:
            yield case(kind, variant, n, **few.get(kind, {}))
    yield case("path", "large, polish", 40)
    yield case("path", "seed 5, runs 3, mask", 25, seed=5, runs=3)
    yield case("cycle", "large, polish", 50)
    yield case("cycle", "seed 5, runs 3, askew", 20, seed=5, runs=3)
    yield case("grid", "large, polish", 30)
    yield case("grid", "seed 5, runs 3, mask", 12, seed=5, runs=3)
    yield case("loss", "seed 5", 9, seed=5, runs=2)
    yield case("loss", "stopped", 20, runs=4, callback=stop_after(25))
    yield case("cycle", "stopped", 12, callback=stop_after(100))
    for kind in ("path", "cycle", "graph", "grid"):
        yield case(kind, "seven items, mask, polish", 7)


def plain_solve_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Without numba, where the loops are Python: larger than what is enumerated, and no larger."""
    settings: list[tuple[str, str, int, dict[str, Any]]] = [
        ("path", "polish", 8, {}),
        ("path", "mask, init", 8, {}),
        ("cycle", "polish", 8, {"runs": 1}),
        ("cycle", "mask, init, stopped", 8, {"runs": 1, "callback": stop_after(150)}),
        ("grid", "polish", 9, {"runs": 1}),
        ("grid", "mask, init", 9, {"runs": 1}),
        ("graph", "polish", 8, {"runs": 1}),
        ("graph", "mask, init, stopped", 8, {"runs": 2, "callback": stop_after(150)}),
        ("loss", "polish", 8, {"runs": 1}),
        ("loss", "mask, init", 8, {"runs": 1}),
    ]
    for kind, variant, n, options in settings:
        name = f"{kind} of {n}, {variant}"
        yield name, lambda kind=kind, name=name, n=n, options=options: solves(kind, name, n, **options)


# ---------------------------------------------------------------- operators


def with_gradients(value: Tensor, name: str, **inputs: Tensor) -> dict[str, Any]:
    """The value and the gradients of a random weighting of it."""
    weights = numbers(f"{name} weights", *value.shape, dtype=value.dtype)
    found = torch.autograd.grad((value * weights).sum(), list(inputs.values()))
    return {"value": tensor(value)} | {f"to {k}": tensor(g) for k, g in zip(inputs, found, strict=True)}


SHAPES: dict[str, tuple[tuple[int, ...], torch.dtype, float, dict[str, Any]]] = {
    "3 x 3": ((3, 3), torch.float32, 4, {}),
    "packed of 8": ((40, 8, 8), torch.float32, 4, {}),
    "packed of 13, two batch dimensions": ((3, 5, 13, 13), torch.float32, 6, {"iterations": 7}),
    "packed of 20, mask": ((9, 20, 20), torch.float32, 4, {"allowed": True}),
    "packed of 20, tolerance": ((9, 20, 20), torch.float32, 8, {"tolerance": 1e-3, "iterations": 60}),
    "20, double": ((4, 20, 20), torch.float64, 6, {}),
    "21": ((5, 21, 21), torch.float32, 6, {}),
    "33, mask": ((5, 33, 33), torch.float32, 6, {"allowed": True}),
    "100": ((3, 100, 100), torch.float32, 6, {"iterations": 20}),
    "100, double, tolerance": ((2, 100, 100), torch.float64, 10, {"tolerance": 1e-4, "iterations": 200}),
    "300": ((300, 300), torch.float32, 8, {}),
    "packed of 10, hard": ((6, 10, 10), torch.float32, 1000, {}),
    "40, hard": ((3, 40, 40), torch.float32, 1000, {"iterations": 15}),
    "40, hard, double, mask": ((2, 40, 40), torch.float64, 1000, {"allowed": True}),
}
"""Name -> shape, precision, spread of the scores, options of us.sinkhorn."""

NOISY: dict[str, tuple[tuple[int, ...], torch.dtype, float | str, dict[str, Any]]] = {
    "8, one beta": ((16, 8, 8), torch.float32, 2.0, {}),
    "12, field, samples": ((6, 12, 12), torch.float32, "field", {"samples": 3}),
    "20, beta per matrix": ((6, 20, 20), torch.float32, "matrix", {"noise": 0.5}),
    "20, mask, samples": ((6, 20, 20), torch.float32, 3.0, {"samples": 2, "allowed": True}),
    "25, field, double": ((4, 25, 25), torch.float64, "field", {}),
    "60, local temperature": ((3, 60, 60), torch.float32, 4.0, {"local": us.LocalTemperature(), "samples": 2}),
    "12, local temperature, mask": ((6, 12, 12), torch.float32, 2.0, {"local": us.LocalTemperature(), "allowed": True}),
    "10, share": ((4, 10, 10), torch.float32, 2.0, {"share": (3, 9), "samples": 2}),
    "30, hard": ((3, 30, 30), torch.float32, 400.0, {"samples": 2}),
    "9, without noise": ((5, 9, 9), torch.float32, "field", {"noise": 0.0}),
}
"""Name -> shape, precision, beta, options of us.gumbel_sinkhorn."""


def sinkhorn(name: str) -> dict[str, Any]:
    shape, dtype, spread, options = SHAPES[name]
    given = numbers(name, *shape, dtype=dtype, spread=spread).requires_grad_()
    if "allowed" in options:
        options = options | {"allowed": mask(name, shape[-1])}
    return with_gradients(us.sinkhorn(given, **options), name, scores=given)


def noisy(name: str) -> dict[str, Any]:
    shape, dtype, beta, options = NOISY[name]
    given = {"scores": numbers(name, *shape, dtype=dtype, spread=4).requires_grad_()}
    if isinstance(beta, str):
        wanted = shape if beta == "field" else (*shape[:-2], 1, 1)
        given["beta"] = (numbers(f"{name} beta", *wanted, dtype=dtype) + 2.0).requires_grad_()
    if "allowed" in options:
        options = options | {"allowed": mask(name, shape[-1])}
    soft = us.gumbel_sinkhorn(given["scores"], given.get("beta", beta), generator=seeded(name), **options)
    return with_gradients(soft, name, **given)


def operator_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in SHAPES:
        yield f"sinkhorn, {name}", lambda name=name: sinkhorn(name)
    for name in NOISY:
        yield f"gumbel_sinkhorn, {name}", lambda name=name: noisy(name)


def plain_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from plain_solve_cases()
    for name in ("3 x 3", "packed of 20, mask", "33, mask", "20, double", "40, hard"):
        yield f"sinkhorn, {name}", lambda name=name: sinkhorn(name)
    for name in ("12, field, samples", "20, mask, samples", "10, share", "9, without noise"):
        yield f"gumbel_sinkhorn, {name}", lambda name=name: noisy(name)


# ---------------------------------------------------------------- functions around them

FIELDS: dict[str, Callable[[], Any]] = {
    "LocalTemperature": us.LocalTemperature,
    "MeanTau": lambda: us.LocalTemperature(us.ExcessEntropy(0.3), 0.5, us.MeanTau()),
    "Product": lambda: us.LocalTemperature(us.ExcessEntropy(0.3), 0.5, us.Product()),
    "DegreeViolation": lambda: us.LocalTemperature(us.DegreeViolation(), 0.5),
    "MatchedScalar": lambda: us.MatchedScalar(us.LocalTemperature(us.ExcessEntropy(0.3), 0.5)),
    "LearnedTemperature": us.LearnedTemperature,
}
RELAXATIONS: dict[str, Callable[[], Any]] = {
    "GumbelSinkhorn": lambda: us.GumbelSinkhorn(us.Anneal(1.0, 3.0, epochs=3), us.LocalTemperature()),
    "Sinkhorn": us.Sinkhorn,
    "ColumnSoftmax": us.ColumnSoftmax,
    "OT4P": us.OT4P,
    "StraightThrough": lambda: us.StraightThrough(us.GumbelSinkhorn(us.Constant(1.0))),
    "NeuralSort": us.NeuralSort,
    "SoftSort": us.SoftSort,
}


def relaxed(name: str) -> dict[str, Any]:
    keys = name in ("NeuralSort", "SoftSort")
    given = numbers(name, *((4, 9) if keys else (4, 9, 9)), dtype=torch.float32, spread=4).requires_grad_()
    relax = RELAXATIONS[name]()
    soft = relax(given, epoch=1, samples=2, generator=seeded(name))
    return with_gradients(soft, name, scores=given) | {"decoded": relax.decode(given.detach()).tolist()}


def field(name: str, masked: bool) -> dict[str, Any]:
    n = 14
    allowed = mask(name, n) if masked else None
    soft = us.sinkhorn(numbers(name, 5, n, n, dtype=torch.float32, spread=6), allowed=allowed)
    return tensor(FIELDS[name]()(soft, 2.0, allowed))


def measured() -> dict[str, Any]:
    """Metrics, energies and losses of small things."""
    soft = us.sinkhorn(numbers("measured", 3, 12, 12, spread=6))
    cost, allowed = distances("measured", 12, askew=0.3), mask("measured", 12)
    ours, theirs = (torch.stack([hidden(f"{who} {k}", 12) for k in range(3)]) for who in ("ours", "theirs"))
    tiles = numbers("tiles", 2, 12, 1, 5, 5, dtype=torch.float32)
    layouts = {"Path": us.Path(12), "Cycle": us.Cycle(12), "Grid": us.Grid(3, 4), "Graph": us.Graph(cost.T)}
    return {
        "entropy": tensor(us.entropy(soft)),
        "entropy of columns": tensor(us.entropy(soft, dim=-2)),
        "entropy, mask": tensor(us.entropy(soft, allowed=allowed)),
        "marginal_error": tensor(us.marginal_error(soft)),
        "assign": us.assign(soft.log()).tolist(),
        "assign, mask": us.assign(soft.log(), allowed).tolist(),
        "kendall_tau": tensor(us.kendall_tau(ours.double(), theirs.double())),
        "kendall_tau, ties": tensor(us.kendall_tau((ours // 3).double(), theirs.double())),
        "tour_kendall_tau": tensor(us.metrics.tour_kendall_tau(ours, theirs)),
        "neighbour_accuracy": tensor(us.metrics.neighbour_accuracy(ours, theirs, us.Grid(3, 4))),
        "reorder": tensor(us.reorder(soft, numbers("reorder", 3, 12, 2))),
        "monotone": tensor(us.losses.monotone(numbers("monotone", 3, 9, 1), (1, 2))),
        "tour_length": tensor(us.losses.tour_length(numbers("tour", 3, 9, 2))),
        "smooth1": tensor(us.losses.smooth1(tiles, us.Grid(3, 4))),
        "smooth2k": tensor(us.losses.smooth2k(tiles, us.Grid(3, 4))),
        "utsp_loss": tensor(us.energies.utsp_loss(soft, cost)),
        **{f"energy, {k}": tensor(v.energy(ours, cost)) for k, v in layouts.items()},
        **{f"expected_energy, {k}": tensor(us.energies.expected_energy(v, soft, cost)) for k, v in layouts.items()},
    }


def fitted() -> dict[str, Any]:
    """Three epochs of a small network, and what it then makes of its lists."""
    torch.manual_seed(0)
    items = numbers("fitted", 24, 6, 1, dtype=torch.float32)
    relax = us.GumbelSinkhorn(us.Anneal(1.0, 4.0, epochs=3), us.LocalTemperature())
    network = us.networks.ItemScorer(6)
    with torch.no_grad():  # torch's own initialisation is not what is tested, and may change with its version
        for name, weights in network.named_parameters():
            weights.copy_(numbers(f"fitted {name}", *weights.shape, dtype=torch.float32))
    done = us.fit(network, items, us.losses.monotone, relax, epochs=3, batch=8, samples=2)
    weights = {k: tensor(v) for k, v in done.network.state_dict().items()}
    losses = [exact(line["loss"]) for line in done.history]
    return {"losses": losses, "status": done.status, "weights": weights}


def function_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in FIELDS:
        yield f"field of {name}", lambda name=name: field(name, masked=False)
        yield f"field of {name}, mask", lambda name=name: field(name, masked=True)
    for name in RELAXATIONS:
        yield f"relaxation {name}", lambda name=name: relaxed(name)
    yield "measures", measured
    yield "fit", fitted


# ---------------------------------------------------------------- refusals


class Collect:
    """A plugin of pytest: which sentences of BadInput were said during each test."""

    def __init__(self) -> None:
        self.said: dict[str, set[str]] = {}
        self.test = ""
        self.before = before = us.BadInput.__init__

        def init(error: us.BadInput, *words: Any) -> None:
            before(error, *words)
            self.said.setdefault(self.test, set()).add(same_everywhere(str(error)))

        us.BadInput.__init__ = init  # pyright: ignore[reportAttributeAccessIssue]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # without the numbers that pytest gives to cases without a name: they shift when a case is added
        self.test = re.sub(r"\d+(?=[-\]])", "", nodeid.partition("::")[2])
        self.said.setdefault(self.test, set())

    def end(self) -> None:
        us.BadInput.__init__ = self.before


def same_everywhere(sentence: str) -> str:
    """Without temporary folders and addresses in memory."""
    folder = re.escape(tempfile.gettempdir())
    return re.sub(
        r"0x[0-9a-f]+", "0x", re.sub(rf"{folder}/pytest-of-[^/]*/pytest-\d+/(?:popen-gw\d+/)?\w*/?", "", sentence)
    )


# what trains a network or starts processes says little and takes long
LONG = "network_cannot or nothing_and_to_a_folder or full_disk or ctrl_c or debug or reader or one_item"


def refusals() -> dict[str, list[str]]:
    """Runs the tests of bad input, in this process, and returns what was said; whether they pass is not our question."""
    import pytest

    collect = Collect()
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    pytest.main([*quiet, "-k", f"not ({LONG})", str(HERE / "test_bad_input.py")], plugins=[collect])
    return {test: sorted(said) for test, said in sorted(collect.said.items()) if test and said}


# ---------------------------------------------------------------- sections


@contextmanager
def pinned_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def results(cases: Iterator[tuple[str, Callable[[], Any]]]) -> dict[str, Any]:
    with pinned_threads():
        return {name: run() for name, run in cases}


def elsewhere(section: str, **environment: str) -> dict[str, Any]:
    """A section in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--print", section],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{section}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


INSIDE: dict[str, Callable[[], dict[str, Any]]] = {
    "solves": lambda: results(solve_cases()),
    "operators": lambda: results(operator_cases()),
    "functions": lambda: results(function_cases()),
    "without numba": lambda: results(plain_cases()),
    "refusals": refusals,
}
SECTIONS: dict[str, Callable[[], dict[str, Any]]] = INSIDE | {
    "without numba": lambda: elsewhere("without numba", UNSHUFFLE_NUMBA="0"),
    "refusals": lambda: elsewhere("refusals"),
}
"""What computes each section of the file, the last two in processes of their own."""
WITH_KERNELS = ("solves", "operators", "functions")
"""Recorded by a process that loads its kernels. One that compiles a kernel first links another copy of what that one calls, and the
last bits of sums over 100 items are others then (n = 100 and 300, gradients, on the machine that recorded)."""


def recorded() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def differences(old: Any, new: Any, same: Callable[[Any, Any], bool], where: str = "") -> Iterator[str]:
    """One line for every leaf that is not ``same``; a case or a sentence that was not recorded is no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            place = f"{where} / {key}" if where else key
            if key in new:
                yield from differences(value, new[key], same, place)
            else:
                yield f"{place}: is gone"
    elif is_text(old) and is_text(new):
        now = [sentence for sentence in new if sentence not in old]
        yield from (f"{where}: {sentence!r} is gone, new are {now}" for sentence in old if sentence not in new)
    elif not same(old, new):
        yield f"{where}: {shown(old)} became {shown(new)}"


def is_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) and " " in entry for entry in value)


def shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, str) and re.fullmatch(r"-?0x[01]\.[0-9a-f]+p[+-]\d+|-?inf|nan", value):
        return repr(float.fromhex(value))
    return repr(value)


def check(sections: list[str]) -> int:
    old, found = recorded(), 0
    for section in sections:
        new = SECTIONS[section]()
        lines = list(differences(old.get(section, {}), new, operator.eq))
        if lines and section in WITH_KERNELS:  # by now all are on the disk
            new = elsewhere(section)
            lines = list(differences(old.get(section, {}), new, operator.eq))
        unknown = len(new.keys() - old.get(section, {}).keys())
        print(
            f"{section}: {len(lines)} differences in {len(new)} cases", f"({unknown} not recorded)" if unknown else ""
        )
        for line in lines:
            print(f"  {line}")
        found += len(lines)
    return 1 if found else 0


def record(sections: list[str]) -> None:
    file = recorded() | {section: SECTIONS[section]() for section in sections}
    file |= {section: elsewhere(section) for section in sections if section in WITH_KERNELS}
    parts = [
        f"{json.dumps(section)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in file[section].items())
        + "\n}"
        for section in SECTIONS
        if section in file
    ]
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")  # a line per case, so that a diff shows which of them changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for option in ("--check", "--record"):
        what.add_argument(option, nargs="*", choices=SECTIONS, metavar="section")
    what.add_argument("--print", choices=INSIDE, help="one section as JSON, computed in this process")
    given = parser.parse_args()
    if given.print:
        print("\n" + json.dumps(INSIDE[given.print]()))
        return 0
    if given.check is not None:
        return check(given.check or list(SECTIONS))
    record(given.record or list(SECTIONS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
