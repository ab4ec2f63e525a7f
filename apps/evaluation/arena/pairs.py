"""Pairs as a person sees them: the sides of the contestants, and an anonymous name of the pair.

Both are derived from the arena's secret, the person and the pair: a reload shows the same sides,
and two people see different names.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.models import User
from apps.evaluation.models import Arena, Pairing

MAX_NAME_LENGTH = 60
DIGITS = 9  # of a task's or a sample's number in a name


@dataclass(frozen=True)
class Pair:
    """A pairing's two answers to a task. `index` is the task's index in its set."""

    pairing: Pairing
    task_id: int
    index: int
    sample: int

    @property
    def key(self) -> str:
        return f"{self.pairing.pk}.{self.index}.{self.sample}"


def arena_bytes(arena: Arena, *about: object) -> bytes:
    """Return 32 pseudo-random bytes that depend on the arena's secret and these values."""
    return hmac.digest(arena.secret.encode(), ":".join(map(str, about)).encode(), "sha256")


def first_is_left(arena: Arena, user: User, pair: Pair) -> bool:
    return bool(arena_bytes(arena, "side", user.pk, pair.key)[0] & 1)


def name_pair(arena: Arena, user: User, pair: Pair) -> str:
    return f"{pair.index}.{pair.sample}.{arena_bytes(arena, 'name', user.pk, pair.key).hex()[:24]}"


def find_pair(arena: Arena, pairings: Sequence[Pairing], user: User, name: object) -> Pair | None:
    """Return the pair that has this name for this person; None for an unknown name.

    At most 66 pairings are tried; the task's id is looked up.
    """
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or not name.isascii():
        return None
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isdigit() and len(part) <= DIGITS for part in parts[:2]):
        return None
    index = int(parts[0])
    sample = int(parts[1])
    candidates = (Pair(pairing, 0, index, sample) for pairing in pairings)
    pair = next(
        (
            candidate
            for candidate in candidates
            if hmac.compare_digest(name_pair(arena, user, candidate), name)
        ),
        None,
    )
    if pair is None or index >= arena.tasks or sample >= arena.samples:
        return None
    task = arena.taskset.tasks.filter(index=index).values_list("pk", flat=True).first()
    return None if task is None else Pair(pair.pairing, task, index, sample)
