"""The method on one small example: twelve shades, scores that are sure of some and not of others, and the real operator."""

from __future__ import annotations

from typing import Any

from ..errors import BadInput, number, whole

N = 12
UNSURE = slice(4, 9)
"""Places in the middle, where shades are so alike that their scores hardly differ."""


def explained(given: dict[str, Any]) -> dict[str, Any]:
    """P, its order and its numbers for the values of the sliders: beta or a target entropy, noise, iterations, boost, seed."""
    import torch

    from ..operators.assignment import assign
    from ..operators.gumbel import gumbel_sinkhorn
    from ..operators.permutation import entropy, marginal_error, reorder
    from ..operators.sinkhorn import sinkhorn
    from ..temperature.entropy import sharpness
    from ..temperature.local import LocalTemperature
    from ..temperature.signals import ExcessEntropy

    iterations = whole("iterations", given.get("iterations", 10), 1)
    seed = whole("seed", given.get("seed", 0), 0)
    noise, boost = (number(name, given.get(name, 0.0), least=0) for name in ("noise", "boost"))
    if iterations > 200 or noise > 10 or boost > 10:
        raise BadInput("iterations go up to 200, noise and boost to 10.")
    scores, shades = example()
    if given.get("entropy") is None:
        beta = number("beta", given.get("beta", 1.0), above=0)
    else:
        target = number("entropy", given["entropy"], above=0)
        if target > 1:
            raise BadInput("The entropy is a share of the largest possible, at most 1.")
        beta = float(sharpness(scores, target, iterations))
    if beta > 1e6:
        raise BadInput("beta goes up to a million.")
    local = LocalTemperature(ExcessEntropy(0.5), boost) if boost else None
    P = gumbel_sinkhorn(
        scores,
        beta=beta,
        samples=1,
        local=local,
        iterations=iterations,
        noise=noise,
        generator=torch.Generator().manual_seed(seed),
    )[0]
    field = torch.full_like(P, beta)
    if local is not None:
        field = local(sinkhorn(beta * scores, iterations), beta).expand_as(P)
    order = assign(P.clamp_min(1e-30).log())
    rows, columns = entropy(P, -1), entropy(P, -2)
    return {
        "P": P.flatten().tolist(),
        "scores": scores.flatten().tolist(),
        "field": field.flatten().tolist(),
        "beta": beta,
        "order": order.tolist(),
        "row_entropy": rows.tolist(),
        "column_entropy": columns.tolist(),
        "entropy": float(rows.mean()),
        "marginal_error": float(marginal_error(P)),
        "shades": shades.tolist(),
        "blended": reorder(P, shades.unsqueeze(-1)).squeeze(-1).tolist(),
    }


def example() -> tuple[Any, Any]:
    """Scores (items x positions) and the shade of each item, from 0 to 1; items come mixed."""
    import torch

    generator = torch.Generator().manual_seed(5)
    shades = torch.linspace(0, 1, N)
    shades[UNSURE] = 0.5 + 0.02 * torch.arange(-2, 3)
    places = torch.linspace(0, 1, N)
    scores = -40 * (shades[:, None] - shades[None, :]).square() - 2 * (shades[:, None] - places).square()
    scores = scores + 0.15 * torch.randn(N, N, generator=generator)
    mixed = torch.randperm(N, generator=generator)
    return scores[mixed], shades[mixed]
