"""Real servers that receive messages: a mail server and a webhook receiver.

Each stores what it receives, and a test can make it fail.
"""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Mailbox:
    """Received mails; the server refuses messages while `refusing` is true."""

    port: int = 0
    refusing: bool = False
    mails: list[Message] = field(default_factory=list)


@dataclass
class Called:
    headers: dict[str, str]
    path: str
    body: bytes


@dataclass
class Receiver:
    """A webhook receiver that responds with `status`."""

    port: int = 0
    status: int = 204
    calls: list[Called] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/alerts/?team=a"


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """Serve the part of SMTP that a client needs (RFC 5321)."""
    box = Mailbox()

    class Session(socketserver.StreamRequestHandler):
        def say(self, words: str) -> None:
            self.wfile.write(f"{words}\r\n".encode())

        def handle(self) -> None:
            self.say("220 sink")
            while line := self.rfile.readline():
                verb = line[:4].upper()
                if verb == b"QUIT":
                    self.say("221 bye")
                    return
                if verb == b"DATA":
                    self.say("354 go on")
                    self.take()
                elif verb == b"RCPT" and box.refusing:
                    self.say("451 later")
                else:
                    self.say("250 sink" if verb in (b"EHLO", b"HELO") else "250 good")

        def take(self) -> None:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            box.mails.append(message_from_bytes(b"".join(lines)))
            self.say("250 taken")

    with _running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)) as port:
        box.port = port
        yield box


@contextmanager
def receiver() -> Iterator[Receiver]:
    took = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            took.calls.append(
                Called(
                    {name.lower(): value for name, value in self.headers.items()}, self.path, body
                )
            )
            self.send_response(took.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep requests out of the test's output."""

    with _running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        took.port = port
        yield took


@contextmanager
def _running(server: socketserver.TCPServer) -> Iterator[int]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
