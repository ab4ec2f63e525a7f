"""Signed requests between machines of one installation.

Both ends hold one secret, which is never sent: a request carries an HMAC-SHA256 of its content and
of the time. Somebody who reads a request can repeat it for SKEW_S, and learns nothing that the
first response did not contain. The publisher signs manifests too, together with the request that
they answer, so that the sha256 of a file can be trusted over a connection without TLS.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass

SCHEME = "RFTWEB-Weights"
SKEW_S = 300  # how far the clocks of two machines may differ
ANSWER_HEADER = "RFTWEB-Signature"
MAX_HOST_LENGTH = 100  # characters
_NOT_IN_A_HOST = re.compile(r"[^A-Za-z0-9._-]")
_HEADER = re.compile(
    SCHEME + r" host=([A-Za-z0-9._-]{1,100}), at=([0-9]{1,12}), signature=([0-9a-f]{64})"
)


class NotSigned(Exception):
    """The request does not have the installation's signature."""


class ClockOff(Exception):
    """The signature is right but its time is off; `seconds` is how far the sender is ahead."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"the clocks of the two machines differ by {abs(seconds)} s; at most {SKEW_S} s are "
            "allowed"
        )
        self.seconds = seconds


@dataclass(frozen=True)
class SignedRequest:
    """The content of a signed request.

    `path` begins with a slash; `range` is its Range header, or empty.
    """

    path: str
    host: str
    at: int
    range: str = ""

    def signature(self, secret: str) -> str:
        return _digest(secret, "\n".join(("GET", self.path, self.range, self.host, str(self.at))))

    def header(self, secret: str) -> str:
        """Return the value of the Authorization header."""
        signature = self.signature(secret)
        return f"{SCHEME} host={self.host}, at={self.at}, signature={signature}"


def read_ask(secret: str, header: str, path: str, range_header: str, now: float) -> SignedRequest:
    """Return the content of the request after checking its signature.

    Raises NotSigned, and ClockOff for a right signature that is too old or too new.
    """
    match = _HEADER.fullmatch(header)
    if match is None or not secret:
        raise NotSigned
    host, at, signature = match.groups()
    ask = SignedRequest(path, host, int(at), range_header)
    if not hmac.compare_digest(ask.signature(secret), signature):
        raise NotSigned
    if abs(ask.at - now) > SKEW_S:
        raise ClockOff(round(ask.at - now))
    return ask


def answer_signature(secret: str, ask: SignedRequest, body: bytes) -> str:
    """Sign the response to `ask`, so that it cannot be used for another request."""
    body_digest = hashlib.sha256(body).hexdigest()
    return _digest(secret, f"answer\n{ask.signature(secret)}\n{body_digest}")


def is_answer_signed(secret: str, ask: SignedRequest, body: bytes, signature: str) -> bool:
    """Tell whether the publisher signed this response; a signature must be ASCII."""
    expected = answer_signature(secret, ask, body)
    return hmac.compare_digest(expected.encode(), signature.encode())


def host_name(name: str) -> str:
    """Return a machine's name as it is written in a header."""
    return _NOT_IN_A_HOST.sub("-", name)[:MAX_HOST_LENGTH] or "unnamed"


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
