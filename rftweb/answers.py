"""Send responses from the event loop, so that a slow client holds no thread.

A complete response is sent at once. One that is generated while it is sent, such as a download, is
written by a separate thread pool into a temporary file, from which the loop sends: the thread is
free when the file is written, however long the client takes.
"""

import asyncio
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from rftweb.request_bodies import Refused

PIECE = 64 * 1024  # bytes that are sent at a time
SEND_S = 20.0  # a client that accepts no piece for so long is disconnected
SLOWEST = 2 * 1024  # bytes per second that a client must take, on average
AHEAD = 256 * 1024 * 1024  # bytes of a download that are generated ahead of sending
THREADS = 4  # threads that generate downloads
MAX_OPEN = 32  # open downloads per process
MAX_OPEN_PER_USER = 4  # open downloads per person
WHOLE_FILE = 4 * 1024 * 1024  # bytes; one of our own files up to this size is read at once
Receive = Callable[[], Awaitable[dict]]
Send = Callable[[dict], Awaitable[None]]


class NotTaken(Exception):
    """The client does not read, or has left."""


@dataclass
class Answer:
    """The response of an application.

    `rest` is an iterable that still has to be made into parts, or None.
    """

    head: dict[str, Any]
    parts: list[bytes]
    rest: Iterable[bytes] | None = None

    @property
    def owner(self) -> str:
        return getattr(self.rest, "downloaded_by", "")


def begin_answer(application: Callable, environ: dict[str, Any]) -> Answer:
    """Call the application and collect all parts of a complete response.

    Runs in a request thread.
    """
    head: dict[str, Any] = {"type": "http.response.start", "status": 500, "headers": []}

    def start(status: str, headers: list[tuple[str, str]], _error: object = None) -> None:
        head["status"] = int(status.partition(" ")[0])
        head["headers"] = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]

    answer = application(environ, start)
    if not _is_whole(answer):
        return Answer(head, [], answer)
    try:
        return Answer(head, list(answer))
    finally:
        _close(answer)


def _is_whole(answer: Any) -> bool:
    if isinstance(answer, list | tuple) or not getattr(answer, "streaming", True):
        return True
    is_file = getattr(answer, "file_to_stream", None) is not None
    return is_file and int(answer.headers.get("Content-Length") or WHOLE_FILE + 1) <= WHOLE_FILE


def _close(answer: Any) -> None:
    if hasattr(answer, "close"):
        answer.close()


# -- sending


class Sender:
    """Sends the messages of one response. Raises NotTaken if the client is too slow or has left."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.waited = 0.0
        self.sent = 0

    async def send(self, message: dict) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(SEND_S):
                await self._send(message)
        except TimeoutError:
            raise NotTaken from None
        self.waited += time.monotonic() - began
        self.sent += len(message.get("body", b""))
        if self.waited > SEND_S + self.sent / SLOWEST:
            raise NotTaken

    async def body(self, part: bytes, is_last: bool = False) -> None:
        await self.send({"type": "http.response.body", "body": part, "more_body": not is_last})


async def send_whole(answer: Answer, send: Send) -> None:
    """Send a complete response. Raise NotTaken."""
    sender = Sender(send)
    body = memoryview(b"".join(answer.parts))
    await sender.send(answer.head)
    last = max(0, len(body) - 1) // PIECE * PIECE
    for begin_at in range(0, last, PIECE):
        await sender.body(bytes(body[begin_at : begin_at + PIECE]))
    await sender.body(bytes(body[last:]), is_last=True)


class Downloads:
    """The downloads of one process."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="download")
        self.open: Counter[str] = Counter()

    async def send(self, answer: Answer, receive: Receive, send: Send) -> None:
        """Generate the response in a download thread and send it. Raise Refused, NotTaken."""
        loop = asyncio.get_running_loop()
        try:
            self._require_room(answer.owner)
        except Refused:
            await loop.run_in_executor(self.pool, _close, answer.rest)
            raise
        self.open[answer.owner] += 1
        spool = Spool(loop)
        making = loop.run_in_executor(self.pool, _make, answer.rest, spool)
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        leaving.add_done_callback(lambda _: spool.abandon())
        try:
            await _send_spooled(answer, spool, Sender(send))
            await making
        finally:
            leaving.cancel()
            spool.abandon()
            await asyncio.wait({making})
            spool.close()
            self.open[answer.owner] -= 1
            self.open = +self.open  # remove people without open downloads

    async def send_head(self, answer: Answer, send: Send) -> None:
        """Answer a HEAD request without generating the body. Raise NotTaken."""
        await asyncio.get_running_loop().run_in_executor(self.pool, _close, answer.rest)
        await send_whole(Answer(answer.head, []), send)

    def _require_room(self, owner: str) -> None:
        if self.open.total() >= MAX_OPEN:
            words = f"{MAX_OPEN} downloads are in progress. Try again in a minute."
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "busy", words, retry_after="60")
        if owner and self.open[owner] >= MAX_OPEN_PER_USER:
            words = f"You have {MAX_OPEN_PER_USER} downloads in progress. Wait until one finishes."
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS, "too_many_downloads", words, retry_after="10"
            )


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _send_spooled(answer: Answer, spool: "Spool", sender: Sender) -> None:
    """Send a response from its spool file.

    The head waits for the first part, so that an exception before it gives an error response.
    """
    has_begun = False
    while part := await spool.next():
        if not has_begun:
            await sender.send(answer.head)
            has_begun = True
        await sender.body(part)
    if not has_begun:
        await sender.send(answer.head)
    await sender.body(b"", is_last=True)


def _make(answer: Iterable[bytes] | None, spool: "Spool") -> None:
    """Write the parts of the response. Runs in a download thread."""
    assert answer is not None  # a complete answer is not sent from here
    try:
        for part in answer:
            spool.write(part)
    except NotTaken:
        return
    except BaseException as error:
        spool.end(error)
        raise
    finally:
        _close(answer)
    spool.end()


class Spool:
    """A temporary file that one thread writes and the event loop reads.

    The writer is at most AHEAD bytes ahead.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.changed = asyncio.Event()
        self.condition = threading.Condition()
        self.written = 0
        self.read = 0
        self.is_over = False
        self.is_abandoned = False
        self.error: BaseException | None = None

    def write(self, part: bytes) -> None:
        """Append a part; wait while the reader is far behind. Raise NotTaken once nobody reads."""
        with self.condition:
            self.condition.wait_for(lambda: self.is_abandoned or self.written - self.read <= AHEAD)
            if self.is_abandoned:
                raise NotTaken
        view = memoryview(part)
        while view:
            view = view[os.pwrite(self.file.fileno(), view, self.written + len(part) - len(view)) :]
        self.written += len(part)
        self._signal_change()

    def end(self, error: BaseException | None = None) -> None:
        self.error = error
        self.is_over = True
        self._signal_change()

    async def next(self) -> bytes:
        """Return the next piece, b"" at the end.

        Raises NotTaken, and exceptions of the writing thread.
        """
        while self.read == self.written:
            if self.is_abandoned:
                raise NotTaken
            if self.error is not None:
                raise self.error
            if self.is_over:
                return b""
            self.changed.clear()
            if self.read == self.written and not (self.is_over or self.is_abandoned):
                await self.changed.wait()
        part = os.pread(self.file.fileno(), min(PIECE, self.written - self.read), self.read)
        with self.condition:
            self.read += len(part)
            self.condition.notify_all()
        return part

    def abandon(self) -> None:
        """Release the writing thread. Called in the event loop."""
        with self.condition:
            self.is_abandoned = True
            self.condition.notify_all()
        self.changed.set()

    def close(self) -> None:
        self.file.close()

    def _signal_change(self) -> None:
        self.loop.call_soon_threadsafe(self.changed.set)
