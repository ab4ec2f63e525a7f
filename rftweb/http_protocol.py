"""uvicorn's HTTP connections with bounds that uvicorn has not: how many, and how long one may say nothing.

Names relied on in uvicorn 0.54: HttpToolsProtocol with `connection_made`, `connection_lost`,
`data_received`, `handle_websocket_upgrade`, `connections`, `cycle.response_complete`, `loop`, `transport`.
"""

import asyncio

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_S = (
    20.0  # a connection that has no complete request line and headers after so long is closed
)
CLOSE_S = 20.0  # a closed connection whose client does not take the rest is cut
LOOK_EVERY_S = 5.0
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"retry-after: 5\r\ncontent-length: 53\r\n\r\nToo many connections are open; try again in seconds.\n"
)


class BoundedHttp(HttpToolsProtocol):
    """A connection from the first byte to the last, or until it becomes a WebSocket."""

    look: asyncio.TimerHandle | None = None
    waiting_s = 0.0  # without a request
    closing_s = 0.0  # since it was closed

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
        if not self.transport.is_closing():
            super().data_received(data)

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
