"""How sure an item's place in a chain is, and how far runs agree; tours up to rotation, both up to reflection."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 256  # items looked at together: n x 256 numbers at a time


def insertion_share(
    order: Int[Tensor, "n"], cost: Float[Tensor, "n n"], scale: float, *, closed: bool
) -> Float[Tensor, "n"]:
    r"""Per item i, $e^{-c_i/\text{scale}} / \sum_g e^{-c_g/\text{scale}}$: its own gap against all gaps g it could be put back into.

    $c_g = D_{ui} + D_{iv} - D_{uv}$ is what inserting i between u and v costs once i is taken out.
    """
    n = len(order)
    share = torch.ones(n, dtype=cost.dtype)
    if n < 4:
        return share
    following = order.roll(-1)
    before, after = order.roll(1), following
    links = n if closed else n - 1
    gap = cost[order[:links], following[:links]]
    for chunk in torch.arange(n).split(CHUNK):
        items = order[chunk]
        insert = cost[order[:links]][:, items].T + cost[items][:, following[:links]] - gap
        rows = torch.arange(len(chunk))
        for touching in ((chunk - 1) % n, chunk):  # the two links of the item itself are no gaps
            inside = touching < links
            insert[rows[inside], touching[inside]] = torch.inf
        into, out, bridge = cost[before[chunk], items], cost[items, after[chunk]], cost[before[chunk], after[chunk]]
        if not closed:  # the ends are gaps with one neighbour
            front, back = chunk == 0, chunk == n - 1
            ends = torch.stack((cost[items, order[0]], cost[order[-1], items]), dim=1)
            insert = torch.cat((insert, ends.masked_fill(torch.stack((front, back), dim=1), torch.inf)), dim=1)
            into, out, bridge = into * ~front, out * ~back, bridge * ~(front | back)
        own = into + out - bridge
        share[items] = torch.sigmoid(-own / scale - torch.logsumexp(-insert / scale, dim=1))
    return share


def link_share(order: Int[Tensor, "n"], cost: Float[Tensor, "n n"], scale: float) -> Float[Tensor, "n"]:
    r"""Per item the share of the weaker of its links a -> b: of $e^{-D_{aj}/\text{scale}}$ among all j, and of
    $e^{-D_{jb}/\text{scale}}$ among all j, in geometric mean. What stands on the other side of a (of b) is no rival."""
    n = len(order)
    share = torch.ones(n, dtype=cost.dtype)
    before, after = order[:-1], order[1:]
    for chunk in torch.arange(n - 1).split(CHUNK):
        a, b, rows = before[chunk], after[chunk], torch.arange(len(chunk))
        onward, back = -cost[a] / scale, -cost[:, b].T / scale
        own = onward[rows, b].clone()
        for rivals, item in ((onward, a), (back, b)):
            rivals[rows, item] = -torch.inf
        inner, last = chunk > 0, chunk < n - 2
        onward[rows[inner], before[chunk[inner] - 1]] = -torch.inf
        back[rows[last], after[chunk[last] + 1]] = -torch.inf
        link = (own - (onward.logsumexp(1) + back.logsumexp(1)) / 2).exp()
        for items in (a, b):
            share[items] = torch.minimum(share[items], link)
    return share


def shared_links(orders: Int[Tensor, "tries n"], best: int, *, closed: bool, directed: bool) -> Float[Tensor, "n"]:
    """Per item, the share of the other orders that have its rarer link in the best one; 1 if there are no others."""
    tries, n = orders.shape
    if tries == 1 or n < 3:
        return torch.ones(n, dtype=torch.float64)
    codes = _links(orders, closed, directed)
    own = codes[best]
    found = torch.stack([torch.isin(own, codes[t]) for t in range(tries) if t != best]).double().mean(0)
    share = torch.ones(n, dtype=torch.float64)
    for items in (orders[best][: len(own)], orders[best].roll(-1)[: len(own)]):
        share[items] = torch.minimum(share[items], found)
    return share


def same_orders(orders: Int[Tensor, "runs n"], best: int, *, closed: bool, directed: bool) -> float:
    """Share of the runs whose set of links is that of the best run."""
    codes = _links(orders, closed, directed).sort(dim=1).values
    return float((codes == codes[best]).all(dim=1).double().mean())


def _links(orders: Tensor, closed: bool, directed: bool) -> Tensor:
    """One number per link: the two items it joins."""
    n = orders.shape[1]
    first, second = orders, orders.roll(-1, 1)
    if not closed:
        first, second = first[:, :-1], second[:, :-1]
    if not directed:
        first, second = torch.minimum(first, second), torch.maximum(first, second)
    return first * n + second


def place_share(marginal: Float[Tensor, "n n"], order: Int[Tensor, "n"], scale: float) -> Float[Tensor, "n"]:
    """Mass that each item keeps in its place, of `place_masses`."""
    share = torch.empty(len(order), dtype=torch.float64)
    share[order] = place_masses(marginal, scale)[order, torch.arange(len(order))]
    return share.float()


def place_masses(marginal: Float[Tensor, "n n"], scale: float, sweeps: int = 50) -> Float[Tensor, "n n"]:
    """Sinkhorn(-marginal / scale), where ``marginal[i, a]`` is what item i pays at position a while the others stay."""
    logits = -(marginal.double() / scale)
    for _ in range(sweeps):
        logits = logits - logits.logsumexp(1, keepdim=True)
        logits = logits - logits.logsumexp(0, keepdim=True)
    return logits.exp()


def same_energy(energies: Float[Tensor, "runs"], best: int) -> float:
    """Share of the runs that reached the best energy: for layouts whose symmetries are not known."""
    least = energies[best]
    return float(((energies - least).abs() <= 1e-9 * least.abs()).double().mean())
