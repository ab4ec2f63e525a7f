"""HTTP client for the publisher's web process, which serves weights to other machines."""

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlsplit

from apps.policies.folder import MANIFEST
from apps.policies.manifest import MANIFEST_LIMIT
from apps.policies.transfer.signing import ANSWER_HEADER, SignedRequest, host_name, is_answer_signed
from apps.policies.transfer.weights_request import NotFetched, WeightsRequest

SILENCE_S = 20.0  # a connection without data for so long is closed
CHUNK = 1024 * 1024  # bytes
DOOR = "/weight-files/"
MAX_REFUSAL_LENGTH = 4096  # bytes of a refusal that are read
BUSY = (429, 503)
LATER_S = 5.0  # if a busy publisher does not say when
WRONG_SECRET = (
    "the publisher rejected the request: set RFTWEB_WEIGHTS_SECRET there to the same value as here"
)


class Broken(Exception):
    """The connection failed, or the publisher is busy; bytes received before stay valid.

    `wait_s` is the time after which the publisher wants the next request.
    """

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Publisher:
    """A client of one publisher.

    `url` is the web process's address, with the path that a proxy adds, without a slash at its end.
    """

    url: str
    secret: str
    host: str

    @classmethod
    def of_settings(cls, url: str, secret: str) -> "Publisher":
        return cls(url, secret, host_name(socket.gethostname()))

    def clock_ahead_s(self) -> float:
        """Check the secret; return how far the publisher's clock is ahead of ours.

        Raises Broken, and NotFetched, also when a clock is too far off.
        """
        before = time.time()
        with self._answer(DOOR) as answer:
            date = answer.response.getheader("Date")
            self._require_signed(answer, answer.read_all(MAX_REFUSAL_LENGTH))
        if not date:
            raise NotFetched("the publisher did not send its time")
        return parsedate_to_datetime(date).timestamp() - (before + time.time()) / 2

    def manifest(self, request: WeightsRequest) -> bytes:
        """Return the manifest's bytes, signed by the publisher. Raise NotFetched, Broken."""
        with self._answer(request.path(MANIFEST)) as answer:
            body = answer.read_all(MANIFEST_LIMIT)
            self._require_signed(answer, body)
            return body

    def part(self, request: WeightsRequest, name: str, begin: int, size: int) -> Iterator[bytes]:
        """Yield the file from byte `begin` on, as far as the publisher sends it in one response.

        Raises NotFetched, and Broken in the middle of an incomplete part.
        """
        with self._answer(request.path(name), f"bytes={begin}-") as answer:
            begins, ends = answer.place(size)
            if begins != begin:
                raise NotFetched(f"{name}: the publisher sent byte {begins}, not byte {begin}")
            yield from answer.chunks(ends - begins)

    def _answer(self, path: str, part: str = "") -> "_Answer":
        ask = SignedRequest(path, self.host, int(time.time()), part)
        return _Answer(self, ask)

    def _require_signed(self, answer: "_Answer", body: bytes) -> None:
        signature = answer.response.getheader(ANSWER_HEADER, "")
        if not is_answer_signed(self.secret, answer.ask, body, signature):
            raise NotFetched("the response is not signed by the publisher: check the address")


class _Answer:
    """A response being read; a context manager that sends the request and closes the connection."""

    def __init__(self, publisher: Publisher, ask: SignedRequest) -> None:
        self.publisher = publisher
        self.ask = ask
        self.response: http.client.HTTPResponse

    def __enter__(self) -> "_Answer":
        address = urlsplit(self.publisher.url)
        self._connection = _connection(address.scheme, address.netloc)
        headers = {"Authorization": self.ask.header(self.publisher.secret)}
        if self.ask.range:
            headers["Range"] = self.ask.range
        try:
            target = address.path + quote(self.ask.path)
            self._connection.request("GET", target, headers=headers)
            self.response = self._connection.getresponse()
            self._require_good()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Broken(f"the publisher does not answer: {_error_text(error)}") from None
        except BaseException:
            self._connection.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _require_good(self) -> None:
        status = self.response.status
        if status in (200, 206):
            return
        refusal = self.response.read(MAX_REFUSAL_LENGTH)
        if status in BUSY or status >= 500:
            after = self.response.getheader("Retry-After") or ""
            wait = float(after) if after.isdecimal() else LATER_S
            raise Broken(f"the publisher is busy ({status})", wait)
        raise NotFetched(_explain_refusal(status, refusal))

    def read_all(self, limit: int) -> bytes:
        """Return the whole body of at most `limit` bytes."""
        try:
            body = self.response.read(limit + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"the connection broke: {_error_text(error)}") from None
        if len(body) > limit:
            raise NotFetched(f"the publisher sent more than {limit} bytes for {self.ask.path}")
        return body

    def place(self, size: int) -> tuple[int, int]:
        """Return the first byte of the part and its end. Raise NotFetched if the size differs."""
        if self.response.status == 200:
            return 0, size
        content_range = self.response.getheader("Content-Range", "")
        unit, _, range_text = content_range.partition(" ")
        numbers = range_text.replace("-", "/").split("/")
        if unit != "bytes" or len(numbers) != 3 or not all(n.isdecimal() for n in numbers):
            raise NotFetched(
                f"the publisher sent a part without its range: {content_range[:100]!r}"
            )
        first, last, whole = map(int, numbers)
        if whole != size or not first <= last < size:
            raise NotFetched(
                f"the publisher's file has {whole} bytes, but the manifest says {size}"
            )
        return first, last + 1

    def chunks(self, length: int) -> Iterator[bytes]:
        """Yield exactly `length` bytes. Raise Broken if fewer come."""
        remaining = length
        while remaining:
            try:
                chunk = self.response.read(min(CHUNK, remaining))
            except (OSError, http.client.HTTPException) as error:
                raise Broken(f"the connection broke: {_error_text(error)}") from None
            if not chunk:
                raise Broken("the connection broke before the file was complete")
            remaining -= len(chunk)
            yield chunk


def _connection(scheme: str, netloc: str) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(netloc, timeout=SILENCE_S, context=context)
    return http.client.HTTPConnection(netloc, timeout=SILENCE_S)


def _error_text(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:200]


def _explain_refusal(status: int, refusal: bytes) -> str:
    """Return a message for the page that explains a refusal."""
    try:
        problem = json.loads(refusal)
        code = str(problem["code"])
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        code = detail = ""
    if status == 401:
        return f"the publisher rejected the request: {detail}" if code == "clock" else WRONG_SECRET
    if status == 404:
        return "the publisher does not have it (any more)"
    if code == "damaged":
        return f"the publisher's folder is damaged: {detail[:200]}"
    return f"the publisher responded with status {status}"
