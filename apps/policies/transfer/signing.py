"""Signed requests between machines of one installation.

Both ends hold one secret, which never travels: a request carries an HMAC-SHA256 of what it asks for
and of the time. Who reads a request can repeat it for SKEW_S, and learns nothing by it that the
first answer did not say. The publisher signs manifests too, with the request that they answer, so
that a file's sha256 can be trusted over a connection without TLS.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass

SCHEME = "RFTWEB-Weights"
SKEW_S = 300  # by how much the clocks of two machines may differ
ANSWER_HEADER = "RFTWEB-Signature"
LONGEST_HOST = 100  # characters
_NOT_IN_A_HOST = re.compile(r"[^A-Za-z0-9._-]")
_HEADER = re.compile(
    SCHEME + r" host=([A-Za-z0-9._-]{1,100}), at=([0-9]{1,12}), signature=([0-9a-f]{64})"
)


class NotSigned(Exception):
    """The request does not bear the installation's signature."""


class ClockOff(Exception):
    """The signature is right, and its time is not ours; `seconds` is how far the sender is ahead."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the two clocks differ by {abs(seconds)} s, at most {SKEW_S} are allowed")
        self.seconds = seconds


@dataclass(frozen=True)
class Ask:
    """What a request asks for. `path` begins with a slash; `range` is its Range header, or empty."""

    path: str
    host: str
    at: int
    range: str = ""

    def signature(self, secret: str) -> str:
        return _digest(secret, "\n".join(("GET", self.path, self.range, self.host, str(self.at))))

    def header(self, secret: str) -> str:
        """The value of the Authorization header."""
        signature = self.signature(secret)
        return f"{SCHEME} host={self.host}, at={self.at}, signature={signature}"


def read_ask(secret: str, header: str, path: str, range_header: str, now: float) -> Ask:
    """Return what the request asks for, once its signature is found right.

    Raises NotSigned, and ClockOff for a right signature that is too old or too new.
    """
    found = _HEADER.fullmatch(header)
    if found is None or not secret:
        raise NotSigned
    host, at, signature = found.groups()
    ask = Ask(path, host, int(at), range_header)
    if not hmac.compare_digest(ask.signature(secret), signature):
        raise NotSigned
    if abs(ask.at - now) > SKEW_S:
        raise ClockOff(round(ask.at - now))
    return ask


def answer_signature(secret: str, ask: Ask, body: bytes) -> str:
    """Sign the answer to `ask`, so that it cannot stand for another's."""
    body_digest = hashlib.sha256(body).hexdigest()
    return _digest(secret, f"answer\n{ask.signature(secret)}\n{body_digest}")


def is_answer_signed(secret: str, ask: Ask, body: bytes, signature: str) -> bool:
    """Whether the publisher signed this answer; text that is not ASCII is no signature."""
    expected = answer_signature(secret, ask, body)
    return hmac.compare_digest(expected.encode(), signature.encode())


def host_name(name: str) -> str:
    """A machine's name as it stands in a header."""
    return _NOT_IN_A_HOST.sub("-", name)[:LONGEST_HOST] or "unnamed"


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
