"""The mechanism figure: one global inverse temperature against the adaptive field, on the block-ambiguous assignment."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..paper.store import Result


def draw_mechanism(result: Result) -> Figure:
    """Left: the diagonal of either block against beta_0; right: the soft permutations, without noise and one sample."""
    shown = result.history.get("shown", [])
    figure = Figure(figsize=(11.5, 8.2) if shown else (5.0, 8.2), layout="constrained", dpi=130)
    cells = figure.add_gridspec(4, 1 + len(shown), width_ratios=(2.4, *[1] * len(shown)))
    for rows, name in ((slice(0, 2), "global"), (slice(2, 4), "adaptive")):
        _draw_curves(figure.add_subplot(cells[rows, 0]), name, result)
    names = ("global", "adaptive", "global, one sample", "adaptive, one sample") if shown else ()
    for line, name in enumerate(names):
        flat = np.array(result.history[f"soft {name}"]).reshape(len(shown), -1)
        side = int(flat.shape[1] ** 0.5)
        for column, (beta, P) in enumerate(zip(shown, flat.reshape(-1, side, side), strict=True)):
            ax = figure.add_subplot(cells[line, 1 + column])
            ax.imshow(P, cmap="magma", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[], ylabel=name.replace(", ", ",\n") if column == 0 else "")
            ax.set_title(rf"$\beta_0 = {beta:g}$" if line == 0 else "")
    return figure


def _draw_curves(ax: Axes, name: str, result: Result) -> None:
    said = result.metrics
    beta, easy, hard = (np.array(result.history[key]) for key in ("beta", f"easy {name}", f"hard {name}"))
    low, high = said["easy_demand"], said["hard_demand"]
    items = [f" ({said[key]:g} items)" if key in said else "" for key in ("easy_items", "hard_items")]
    ax.plot(beta, easy, color="tab:blue", label=f"easy rows{items[0]}")
    ax.plot(beta, hard, color="tab:red", label=f"hard rows{items[1]}")
    ax.axhline(low, color="tab:blue", linestyle=":", label=f"easy: at least {low:g}")
    ax.axhline(high, color="tab:red", linestyle=":", label=f"hard: at most {high:g}")
    met = (easy >= low) & (hard <= high)
    shade = {"color": "tab:green", "alpha": 0.25, "linewidth": 0, "label": "both demands met"}
    ax.fill_between(beta, 0, 1, where=met.tolist(), **shade)
    ax.set(ylim=(0, 1.02), ylabel="diagonal of P", title=f"{name} inverse temperature", xlabel=r"$\beta_0$")
    ax.legend(loc="lower right", fontsize=8)
