"""Task of the nth draw: a seeded shuffle of the set per epoch, computed without holding the set."""

import hashlib
from collections.abc import Container

ROUNDS = 4


def draw_position(draw_index: int, size: int, seed: int, left_out: Container[int] = ()) -> int:
    """Return the index of the task taken by a draw.

    Every epoch of `size` draws takes each task exactly once.

    A task that is left out gives its draw to the next one of the epoch that is not; one at least
    must be left.

    A four-round Feistel network over the next power of four, walked until it lands inside the set
    (Black and Rogaway 2002, cycle walking): O(1) memory, so a million-row set shuffles for free.
    Raises ValueError for an empty set.
    """
    if size < 1:
        raise ValueError("the taskset is empty: import or generate tasks first")
    epoch, place = divmod(draw_index, size)
    while (index := _shuffled(epoch, place, size, seed)) in left_out:
        place = (place + 1) % size
    return index


def _shuffled(epoch: int, place: int, size: int, seed: int) -> int:
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    while True:
        place = _permuted(place, half_bits, f"{seed}:{epoch}")
        if place < size:
            return place


def _permuted(value: int, half_bits: int, key: str) -> int:
    mask = (1 << half_bits) - 1
    left = value >> half_bits
    right = value & mask
    for number in range(ROUNDS):
        digest = hashlib.blake2b(f"{key}:{number}:{right}".encode(), digest_size=8).digest()
        left, right = right, left ^ (int.from_bytes(digest, "big") & mask)
    return (left << half_bits) | right
