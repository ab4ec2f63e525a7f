"""HTTP connections of uvicorn, with limits that uvicorn lacks.

The limits are the number of connections, how long one may be silent, and how much it may send
besides bodies: request line, headers, trailers and the framing of chunks.

Names relied on in uvicorn 0.54: HttpToolsProtocol with `connection_made`, `connection_lost`,
`data_received`, `on_message_begin`, `on_url`, `on_header`, `on_body`, `send_400_response`,
`handle_websocket_upgrade`, `connections`, `cycle.response_complete`, `loop`, `transport`.
"""

import asyncio

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_S = 20.0  # a connection without complete request line and headers is closed after so long
CLOSE_S = 20.0  # a closed connection whose client does not read the rest is dropped
LOOK_EVERY_S = 5.0
MAX_HEAD_BYTES = 64 * 1024  # bytes of a request besides its body
FRAMING = 16  # bytes of framing allowed per byte of a body; chunks of one byte need so many


def _refusal(status: str, words: str, *headers: str) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        "content-type: text/plain; charset=utf-8",
        "connection: close",
        f"content-length: {len(words)}",
        *headers,
    )
    return "\r\n".join((*lines, "", words)).encode()


FULL = _refusal(
    "503 Service Unavailable",
    "Too many open connections. Try again in a few seconds.\n",
    "retry-after: 5",
)
TOO_LARGE = _refusal(
    "431 Request Header Fields Too Large",
    f"The address and headers can have {MAX_HEAD_BYTES:,} bytes in total.\n",
)


class _HeadTooLarge(Exception):
    """URL, headers and trailers have more than MAX_HEAD_BYTES bytes."""


class BoundedHttp(HttpToolsProtocol):
    """A connection from the first byte to the last, or until it becomes a WebSocket."""

    look: asyncio.TimerHandle | None = None
    waiting_s = 0.0  # without a request
    closing_s = 0.0  # since it was closed
    head = 0  # bytes of the request besides its body
    fields = 0  # bytes of its URL, headers and trailers

    # As uvicorn's own: a server's connections have no other kind of transport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > settings.CONNECTIONS_PER_PROCESS:
            transport.write(FULL)
            transport.close()
        self._look_again()

    def connection_lost(self, error: Exception | None) -> None:
        self._look_no_more()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.head += len(data)
        super().data_received(data)
        if self.head > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse_head()

    def on_message_begin(self) -> None:
        self.head = 0  # discard the bytes of earlier requests in the same data
        self.fields = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self.head = max(0, self.head - FRAMING * len(body))
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        if self.fields > MAX_HEAD_BYTES:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _count(self, *parts: bytes) -> None:
        """Count bytes; raise an exception over the limit, which stops the parser."""
        self.fields += sum(map(len, parts))
        if self.fields > MAX_HEAD_BYTES:
            raise _HeadTooLarge

    def _refuse_head(self) -> None:
        """Close the connection, with an error response unless one is under way."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(TOO_LARGE)
            self.transport.close()
        else:
            self.transport.abort()

    def handle_websocket_upgrade(self) -> None:
        self._look_no_more()  # the WebSocket's own protocol takes over
        super().handle_websocket_upgrade()

    def _look_again(self) -> None:
        self.look = self.loop.call_later(LOOK_EVERY_S, self._look)

    def _look_no_more(self) -> None:
        if self.look is not None:
            self.look.cancel()

    def _look(self) -> None:
        is_closing = self.transport.is_closing()
        is_waiting = self.cycle is None or self.cycle.response_complete
        self.closing_s = self.closing_s + LOOK_EVERY_S if is_closing else 0.0
        self.waiting_s = self.waiting_s + LOOK_EVERY_S if is_waiting else 0.0
        if self.closing_s >= CLOSE_S or self.waiting_s >= REQUEST_S:
            self.transport.abort()
        else:
            self._look_again()
