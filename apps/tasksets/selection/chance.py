"""Repeatable random numbers: each is a function of its key, and of no state."""

import hashlib

BITS = 53  # of a float's mantissa


def unit(*key: object) -> float:
    """Return a number in [0, 1) for this key, the same on every machine."""
    digest = hashlib.blake2b(":".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - BITS)) * 2.0**-BITS


def below(size: int, *key: object) -> int:
    """Return a whole number from 0 to size − 1, each as likely."""
    return int(unit(*key) * size)


def derive_seed(*key: object) -> int:
    """Return a seed of a generator, from 0 to 2**63 - 1, for this key."""
    digest = hashlib.blake2b(":".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
