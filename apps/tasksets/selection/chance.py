"""Random numbers that a draw can have again: each is a function of the words that name it, and of nothing that went before."""

import hashlib

BITS = 53  # of a float's mantissa


def unit(*key: object) -> float:
    """A number in [0, 1) for this key; the same key has the same number on every machine."""
    digest = hashlib.blake2b(":".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - BITS)) * 2.0**-BITS


def below(size: int, *key: object) -> int:
    """A whole number from 0 to size − 1, each as likely."""
    return int(unit(*key) * size)


def seed(*key: object) -> int:
    """Seed of a generator, from 0 to 2**63 - 1, for this key."""
    digest = hashlib.blake2b(":".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
