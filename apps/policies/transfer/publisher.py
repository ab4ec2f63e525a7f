"""The publisher's web process, as the machine sees it that fetches weights from it."""

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
from apps.policies.transfer.signing import ANSWER_HEADER, Ask, host_name, is_answer_signed
from apps.policies.transfer.wanted import NotFetched, Wanted

SILENCE_S = 20.0  # a connection on which nothing comes for so long is given up
CHUNK = 1024 * 1024  # bytes
DOOR = "/weight-files/"
LONGEST_REFUSAL = 4096  # bytes of a refusal that are read
BUSY = (429, 503)
LATER_S = 5.0  # where a busy publisher does not say when
WRONG_SECRET = (
    "the publisher refuses us: RFTWEB_WEIGHTS_SECRET must be set there, and be the same here"
)


class Broken(Exception):
    """The connection failed, or the publisher is busy; what came before stays good.

    `wait_s`: how long the publisher wants to be left alone.
    """

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Publisher:
    """`url`: the web process's address, with the path that a proxy adds, without a slash at its end."""

    url: str
    secret: str
    host: str

    @classmethod
    def of_settings(cls, url: str, secret: str) -> "Publisher":
        return cls(url, secret, host_name(socket.gethostname()))

    def clock_ahead_s(self) -> float:
        """Ask whether the secret is right; returns how far the publisher's clock is ahead of ours.

        Raises NotFetched, which also tells of a clock that is too far off, and Broken.
        """
        before = time.time()
        with self._answer(DOOR) as answer:
            date = answer.response.getheader("Date")
            self._require_signed(answer, answer.read_all(LONGEST_REFUSAL))
        if not date:
            raise NotFetched("the publisher does not say what time it is")
        return parsedate_to_datetime(date).timestamp() - (before + time.time()) / 2

    def manifest(self, wanted: Wanted) -> bytes:
        """The manifest's bytes, signed by the publisher. Raises NotFetched, Broken."""
        with self._answer(wanted.path(MANIFEST)) as answer:
            body = answer.read_all(MANIFEST_LIMIT)
            self._require_signed(answer, body)
            return body

    def part(self, wanted: Wanted, name: str, begin: int, size: int) -> Iterator[bytes]:
        """The file from byte `begin` on, as far as the publisher sends it at once, in chunks.

        Raises NotFetched, and Broken in the middle of a part that does not come to its end.
        """
        with self._answer(wanted.path(name), f"bytes={begin}-") as answer:
            begins, ends = answer.place(size)
            if begins != begin:
                raise NotFetched(f"{name}: the publisher sends byte {begins}, not byte {begin}")
            yield from answer.chunks(ends - begins)

    def _answer(self, path: str, part: str = "") -> "_Answer":
        ask = Ask(path, self.host, int(time.time()), part)
        return _Answer(self, ask)

    def _require_signed(self, answer: "_Answer", body: bytes) -> None:
        signature = answer.response.getheader(ANSWER_HEADER, "")
        if not is_answer_signed(self.secret, answer.ask, body, signature):
            raise NotFetched("the answer is not signed by our publisher: is the address right?")


class _Answer:
    """An answer while it is read; a context manager that asks, and closes the connection."""

    def __init__(self, publisher: Publisher, ask: Ask) -> None:
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
            raise Broken(f"the publisher does not answer: {_words(error)}") from None
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
        refusal = self.response.read(LONGEST_REFUSAL)
        if status in BUSY or status >= 500:
            after = self.response.getheader("Retry-After") or ""
            wait = float(after) if after.isdecimal() else LATER_S
            raise Broken(f"the publisher is busy ({status})", wait)
        raise NotFetched(_refused(status, refusal))

    def read_all(self, limit: int) -> bytes:
        """The whole body of at most `limit` bytes."""
        try:
            body = self.response.read(limit + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"the connection broke: {_words(error)}") from None
        if len(body) > limit:
            raise NotFetched(f"the publisher sends more than {limit} bytes for {self.ask.path}")
        return body

    def place(self, size: int) -> tuple[int, int]:
        """Which bytes of the file come: from, and up to. Raises NotFetched for another size."""
        if self.response.status == 200:
            return 0, size
        told = self.response.getheader("Content-Range", "")
        unit, _, rest = told.partition(" ")
        numbers = rest.replace("-", "/").split("/")
        if unit != "bytes" or len(numbers) != 3 or not all(n.isdecimal() for n in numbers):
            raise NotFetched(f"the publisher sends a part without saying which: {told[:100]!r}")
        first, last, whole = map(int, numbers)
        if whole != size or not first <= last < size:
            raise NotFetched(f"the publisher's file has {whole} bytes, the manifest says {size}")
        return first, last + 1

    def chunks(self, length: int) -> Iterator[bytes]:
        """Exactly `length` bytes. Raises Broken when fewer come."""
        left = length
        while left:
            try:
                chunk = self.response.read(min(CHUNK, left))
            except (OSError, http.client.HTTPException) as error:
                raise Broken(f"the connection broke: {_words(error)}") from None
            if not chunk:
                raise Broken("the connection broke before the file was whole")
            left -= len(chunk)
            yield chunk


def _connection(scheme: str, netloc: str) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(netloc, timeout=SILENCE_S, context=context)
    return http.client.HTTPConnection(netloc, timeout=SILENCE_S)


def _words(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:200]


def _refused(status: int, refusal: bytes) -> str:
    """What a refusal means to who reads it on a page of ours."""
    try:
        told = json.loads(refusal)
        code, detail = str(told["code"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        code = detail = ""
    if status == 401:
        return f"the publisher refuses us: {detail}" if code == "clock" else WRONG_SECRET
    if status == 404:
        return "the publisher does not have it (any more)"
    if code == "damaged":
        return f"the publisher's folder is damaged: {detail[:200]}"
    return f"the publisher answers {status}"
