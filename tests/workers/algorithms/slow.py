"""Every loss again, token by token in Python floats: the reference for the tensor versions.

A loss here gets `live` logprobs, by which it is differentiated, and `held` ones, a constant copy;
terms under a stop-gradient use `held`. The gradient is then a central difference in `live` only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workers.algorithms.tokens import Tokens

STEP = 1e-6


@dataclass(frozen=True)
class Row:
    """One completion's loss tokens only, as lists."""

    live: list[float]
    held: list[float]
    behaviour: list[float]
    advantages: list[float]
    reference: list[float]
    proximal: list[float]

    def moved(self, t: int) -> float:
        return self.live[t] - self.behaviour[t]

    def constant_ratio(self, t: int) -> float:
        return math.exp(self.held[t] - self.behaviour[t])

    def whole(self) -> float:
        """Return exp of the mean log-ratio, as a constant."""
        gaps = [h - b for h, b in zip(self.held, self.behaviour, strict=True)]
        return math.exp(sum(gaps) / len(gaps))


def clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def ppo(
    row,
    t,
    clip_low=0.2,
    clip_high=0.2,
    dual_clip=3.0,
    sequence_mask=None,
    policy_gradient_fallback=False,
):
    a = row.advantages[t]
    moved = row.live[t] - row.held[t] if policy_gradient_fallback else clip(row.moved(t), -20, 20)
    r = math.exp(moved)
    value = max(-a * r, -a * clip(r, 1 - clip_low, 1 + clip_high))
    if a < 0 and dual_clip is not None:
        value = min(value, -a * dual_clip)
    if sequence_mask is not None and a < 0:
        away = [b - h for b, h in zip(row.behaviour, row.held, strict=True)]
        if sum(away) / len(away) > sequence_mask:
            return 0.0
    return value


def decoupled(
    row, t, clip_low=0.2, clip_high=0.2, cap=5.0, floor=None, correction="token_truncate"
):
    a = row.advantages[t]
    u = math.exp(row.live[t] - row.proximal[t])
    places = range(len(row.live)) if correction.startswith("sequence") else [t]
    w = math.prod(math.exp(row.proximal[k] - row.behaviour[k]) for k in places)
    low = 0.0 if floor is None else floor
    high = math.inf if cap is None else cap
    held = min(max(w, low), high)
    if correction.endswith("mask") and held != w:
        held = 0.0
    return held * max(-a * u, -a * clip(u, 1 - clip_low, 1 + clip_high))


def gspo(row, t, clip_low=3e-4, clip_high=4e-4):
    a = row.advantages[t]
    s = row.whole() * math.exp(row.live[t] - row.held[t])
    return max(-a * s, -a * clip(s, 1 - clip_low, 1 + clip_high))


def cispo(row, t, clip_low=1.0, clip_high=0.28, mask_low=None, mask_high=None):
    a = row.advantages[t]
    r = row.constant_ratio(t)
    if mask_high is not None and a > 0 and r > 1 + mask_high:
        return 0.0
    if mask_low is not None and a < 0 and r < 1 - mask_low:
        return 0.0
    return -a * clip(r, 1 - clip_low, 1 + clip_high) * row.live[t]


def sapo(row, t, tau_positive=1.0, tau_negative=1.05, constant_gate=False):
    a = row.advantages[t]
    tau = tau_positive if a > 0 else tau_negative
    r = row.constant_ratio(t) if constant_gate else math.exp(row.moved(t))
    gate = 4 / tau / (1 + math.exp(-tau * (r - 1)))
    return -a * gate * (row.live[t] if constant_gate else 1.0)


def topr(row, t, threshold=0.0):
    a = row.advantages[t]
    alpha = 1.0 if a > threshold else clip(row.constant_ratio(t), 0, 1)
    return -alpha * a * row.live[t]


def sppo(row, t, epsilon=0.3):
    inside = 1 / (1 + epsilon) <= row.constant_ratio(t) <= 1 + epsilon
    return -row.advantages[t] * row.moved(t) if inside else 0.0


def opmd(row, t, tau=1.0):
    return -row.advantages[t] * row.live[t] / (1 + tau)


def kimi(row, t, tau=0.1):
    """Return a token's loss; the row's square is divided among its tokens by their part of Δ."""
    delta = sum(row.moved(k) for k in range(len(row.live)))
    return -row.advantages[t] * row.live[t] + tau / 2 * delta * row.moved(t)


def importance_sampling(row, t, cap=None):
    r = math.exp(row.moved(t))
    if cap is not None:
        r = min(row.constant_ratio(t), cap) * math.exp(row.live[t] - row.held[t])
    return -row.advantages[t] * r


def rec(
    row,
    t,
    clip_mode="none",
    clip_low=0.2,
    clip_high=0.2,
    outer_low=0.6,
    outer_high=2.0,
    weight="none",
    regularizer="none",
    regularizer_coefficient=0.0,
    temperature=1.0,
):
    a = row.advantages[t]
    r = row.constant_ratio(t)
    s = row.whole()
    low = 1 - clip_low
    high = 1 + clip_high

    def one_side(x):
        return (a >= 0 and x <= high) or (a <= 0 and x >= low)

    counts = True
    if clip_mode == "two-side":
        counts = low <= r <= high
    elif clip_mode == "one-side":
        counts = one_side(r)
    elif clip_mode == "sequence-one-side":
        counts = one_side(s)
    elif clip_mode == "ring":
        counts = (
            low <= r <= high or (a >= 0 and r <= 1 - outer_low) or (a <= 0 and r >= 1 + outer_high)
        )
    w = 1.0
    if weight == "importance":
        w = r
    elif weight == "truncated":
        w = clip(r, 1 - outer_low, 1 + outer_high)
    elif weight == "sequence":
        w = s
    elif weight == "advantage":
        w = math.exp(a / temperature)
    value = -a * w * row.live[t] if counts else 0.0
    if regularizer == "k2":
        value += regularizer_coefficient * row.moved(t) ** 2
    elif regularizer == "forward-kl":
        value -= regularizer_coefficient * row.live[t]
    return value


def sft(row, t):
    return -row.live[t]


def sft_is(row, t):
    return -math.exp(row.held[t]) * row.live[t]


def sft_phi(row, t, cutoff=None):
    p = math.exp(row.held[t])
    return -p * (1 - p) * (row.live[t] if cutoff is None else min(row.live[t], math.log(cutoff)))


LOSSES = {
    f.__name__: f
    for f in (
        ppo,
        decoupled,
        gspo,
        cispo,
        sapo,
        topr,
        sppo,
        opmd,
        kimi,
        importance_sampling,
        rec,
        sft,
        sft_is,
        sft_phi,
    )
}


def rows_of(tokens: Tokens) -> list[tuple[Row, list[int]]]:
    """Return each row with the columns of its loss tokens."""
    found = []
    policy = tokens.policy.detach()
    for b in range(len(policy)):
        places = [c for c in range(policy.shape[1]) if tokens.mask[b, c] != 0]
        tensors = (
            policy,
            policy,
            tokens.behaviour,
            tokens.advantages,
            tokens.reference,
            tokens.proximal,
        )
        found.append((Row(*([float(tensor[b, c]) for c in places] for tensor in tensors)), places))
    return found


def values(loss: Callable, tokens: Tokens, **options: object) -> torch.Tensor:
    """Return the values (B, C) in float64, zero outside the mask."""
    found = torch.zeros(tokens.policy.shape, dtype=torch.float64)
    for b, (row, places) in enumerate(rows_of(tokens)):
        for t, c in enumerate(places):
            found[b, c] = loss(row, t, **options)
    return found


def gradient_of_sum(loss: Callable, tokens: Tokens, **options: object) -> torch.Tensor:
    """Return d Σ values / d policy, (B, C), by central differences in `live`."""
    found = torch.zeros(tokens.policy.shape, dtype=torch.float64)
    for b, (row, places) in enumerate(rows_of(tokens)):
        for t, c in enumerate(places):
            ends = []
            for step in (STEP, -STEP):
                live = [*row.live[:t], row.live[t] + step, *row.live[t + 1 :]]
                nudged = Row(
                    live, row.held, row.behaviour, row.advantages, row.reference, row.proximal
                )
                ends.append(sum(loss(nudged, k, **options) for k in range(len(live))))
            found[b, c] = (ends[0] - ends[1]) / (2 * STEP)
    return found


def aggregate(values: torch.Tensor, mask: torch.Tensor, mode: str, width: int) -> float:
    """Return the loss of a complete update, by the definition of each mode."""
    rows = [
        [float(v) for v, m in zip(row, kept, strict=True) if m != 0]
        for row, kept in zip(values, mask, strict=True)
    ]
    match mode:
        case "token-mean":
            return sum(map(sum, rows)) / sum(map(len, rows))
        case "seq-mean-token-mean":
            return sum(sum(row) / len(row) if row else 0.0 for row in rows) / len(rows)
        case "seq-mean-token-sum":
            return sum(map(sum, rows)) / len(rows)
        case "seq-mean-token-sum-norm":
            return sum(map(sum, rows)) / len(rows) / width
    raise ValueError(mode)
