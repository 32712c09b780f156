r"""Local search on a chain with fixed ends, by near neighbours: reversals (2-opt), moves of up to three items (Or-opt), and kicks.

Only links to one of an item's nearest are tried, and only at items whose links have changed (Bentley 1992). A *kick* exchanges
two short neighbouring stretches at random (a local double bridge, Martin, Otto and Felten 1991); what the search then makes of it is kept
if it is no longer than before and taken back otherwise. All changes are reversals of stretches, so taking back is doing them
again in reverse. Several threads work on different stretches of one order: none reads what another writes.
"""

from __future__ import annotations

import numpy as np

from ...compute.jit import njit
from .space import apart

LONGEST = 3  # items moved together; Or's own choice
KICK = 50  # items of either stretch that a kick exchanges, at most
ENOUGH = 1e-10  # a gain below this share of the links concerned is rounding


@njit
def _reverse(order, place, low, high):
    while low < high:
        a, b = order[low], order[high]
        order[low], order[high] = b, a
        place[b], place[a] = low, high
        low += 1
        high -= 1


@njit
def _note(order, place, low, high, log, logged):
    """Reverse a stretch, and remember it if there is room; returns how many were to be remembered."""
    _reverse(order, place, low, high)
    if logged < len(log):
        log[logged, 0], log[logged, 1] = low, high
    return logged + 1


@njit
def _wait(item, queue, waiting, state):
    """Put an item in line, unless it stands there or is nobody."""
    if item < waiting.size - 1 and not waiting[item]:
        waiting[item] = True
        queue[(state[0] + state[1]) % queue.size] = item
        state[1] += 1


@njit
def _turned(costs, near, order, place, stretch, a, log, logged):
    """The first reversal that gives item a a nearer neighbour and shortens the chain: gain, and the four items at its links."""
    first, last, window = stretch
    p = place[a]
    for side in range(2):
        step = 1 if side == 0 else -1
        s = order[p + step]
        now = apart(costs, a, s)
        for t in range(near.shape[1]):
            c = near[a, t]
            if c < 0:
                break
            new = apart(costs, a, c)
            if now - new <= ENOUGH * now:
                break
            q = place[c]
            if q + step < first or q + step > last or q < first or q > last or abs(q - p) > window:
                continue
            e = order[q + step]
            old = now + apart(costs, c, e)
            gain = old - new - apart(costs, s, e)
            if gain > ENOUGH * old:
                if side == 0:
                    low, high = (p + 1, q) if p < q else (q + 1, p)
                else:
                    low, high = (p, q - 1) if p < q else (q, p - 1)
                logged = _note(order, place, low, high, log, logged)
                return gain, logged, s, c, e
    return 0.0, logged, -1, -1, -1


@njit
def _moved(costs, near, order, place, stretch, a, log, logged):
    """The first better place, next to a near item, for one to three items of which a is the first or the last."""
    first, last, window = stretch
    p = place[a]
    for size in range(1, LONGEST + 1):
        for side in range(2 if size > 1 else 1):
            i, j = (p, p + size - 1) if side == 0 else (p - size + 1, p)
            if i <= first or j >= last:
                continue
            z = order[j] if side == 0 else order[i]  # the other end
            before, after = order[i - 1], order[j + 1]
            out = apart(costs, before, order[i]) + apart(costs, order[j], after)
            free = out - apart(costs, before, after)
            for t in range(near.shape[1]):
                c = near[a, t]
                if c < 0:
                    break
                new = apart(costs, a, c)
                if free - new <= ENOUGH * out:
                    break
                q = place[c]
                if q < first or q > last or i <= q <= j or abs(q - p) > window:
                    continue
                for step in (-1, 1):
                    r = q + step
                    if r < first or r > last or i <= r <= j:
                        continue
                    e = order[r]
                    here = apart(costs, c, e)
                    gain = free + here - new - apart(costs, z, e)
                    if gain > ENOUGH * (out + here):
                        # a stands next to c: so the stretch keeps its direction if a is its first and c is before it, and so on
                        keeps = (side == 0) == (step == 1)
                        logged = _shift(order, place, i, j, min(q, r), keeps, log, logged)
                        return gain, logged, before, after, c, e, z
    return 0.0, logged, -1, -1, -1, -1, -1


@njit
def _shift(order, place, i, j, gap, keeps, log, logged):
    """Move positions i..j into the gap after position ``gap``, by reversals."""
    if gap > j:
        logged = _note(order, place, i, gap, log, logged)
        logged = _note(order, place, i, i + gap - j - 1, log, logged)
        low, high = i + gap - j, gap
    else:
        logged = _note(order, place, gap + 1, j, log, logged)
        logged = _note(order, place, gap + 1 + j - i + 1, j, log, logged)
        low, high = gap + 1, gap + 1 + j - i
    if keeps:
        logged = _note(order, place, low, high, log, logged)
    return logged


@njit
def _settle(costs, near, order, place, stretch, line, log, logged, most):
    """Search at the items in line until none is left or ``most`` have been looked at: gain, reversals remembered."""
    queue, waiting, state = line
    first, last = stretch[0], stretch[1]
    total = 0.0
    while state[1] > 0 and most > 0:
        most -= 1
        a = queue[state[0]]
        state[0] = (state[0] + 1) % queue.size
        state[1] -= 1
        waiting[a] = False
        while first < place[a] < last:
            gain, logged, s, c, e = _turned(costs, near, order, place, stretch, a, log, logged)
            if gain > 0.0:
                for item in (s, c, e):
                    _wait(item, queue, waiting, state)
                total += gain
                continue
            gain, logged, b, f, c, e, z = _moved(costs, near, order, place, stretch, a, log, logged)
            if gain > 0.0:
                for item in (b, f, c, e, z):
                    _wait(item, queue, waiting, state)
                total += gain
                continue
            break
    return total, logged


@njit
def settle(costs, near, order, place, stretch, line, most):
    """Local search at the items in line, in the stretch first..last of the order, whose ends stay; how much shorter it is."""
    return _settle(costs, near, order, place, stretch, line, np.empty((0, 2), np.int64), 0, most)[0]


@njit
def _drawn(random, span):
    """The next state of a xorshift generator, the same everywhere, and a whole number below ``span``."""
    random ^= random << np.uint64(13)
    random ^= random >> np.uint64(7)
    random ^= random << np.uint64(17)
    return random, np.int64((random >> np.uint64(11)) % np.uint64(span))


@njit
def kicked(costs, near, order, place, stretch, line, kicks, seed):
    """So many kicks in a stretch, each kept if the search makes it no longer; how much shorter the stretch is."""
    first, last = stretch[0], stretch[1]
    queue, waiting, state = line
    log = np.empty((1000, 2), np.int64)
    total, room = 0.0, last - first - 1
    random = np.uint64(seed * 2 + 1)
    for _ in range(kicks if room > 3 else 0):
        random, one = _drawn(random, min(KICK, room // 2))
        random, other = _drawn(random, min(KICK, room // 2))
        random, shift = _drawn(random, room - one - other - 1)
        i = first + 1 + shift
        j, q = i + one, i + one + other + 1
        ends = (order[i - 1], order[i], order[j], order[j + 1], order[q], order[q + 1])
        gain = apart(costs, ends[0], ends[1]) + apart(costs, ends[2], ends[3]) + apart(costs, ends[4], ends[5])
        gain -= apart(costs, ends[0], ends[3]) + apart(costs, ends[4], ends[1]) + apart(costs, ends[2], ends[5])
        logged = _note(order, place, i, q, log, 0)
        logged = _note(order, place, i, i + q - j - 1, log, logged)
        logged = _note(order, place, i + q - j, q, log, logged)
        for item in ends:
            _wait(item, queue, waiting, state)
        more, logged = _settle(costs, near, order, place, stretch, line, log, logged, 1 << 40)
        if gain + more >= 0.0 or logged > len(log):
            total += gain + more
        else:
            for k in range(logged - 1, -1, -1):
                _reverse(order, place, log[k, 0], log[k, 1])
    return total
