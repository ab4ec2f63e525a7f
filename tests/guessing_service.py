"""A reset/step/close service on loopback that can be told how to break."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Guessing(BaseHTTPRequestHandler):
    """Guess the number 5.

    `server.breaks`: how it fails at a step; `server.asked`: the requests it got.
    """

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self.server.bearers.append(self.headers["Authorization"])
        if self.path == "/play/reset":
            self._say({"observation": "guess", "session": f"s{body['seed']}"})
        elif self.path == "/play/step":
            self._broken() if self.server.breaks else self._say(self._step(body))
        else:
            self._say({})

    def _step(self, body: dict) -> dict:
        is_right = body["action"].strip().startswith("5")
        said = "yes" if is_right else "no"
        return {
            "observation": said,
            "reward": float(is_right),
            "done": is_right,
            "info": {"number": body["number"]},
        }

    def _broken(self) -> None:
        breaks = self.server.breaks
        if breaks == "hang":
            self.server.let_go.wait(30)
        elif breaks == "drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.server.let_go.wait(0.05):
                self.wfile.write(b"x: y\r\n")
        elif breaks == "crash":
            self.send_error(500, "out of luck")
        elif breaks == "headers":
            self.send_error(500, str(self.headers["Authorization"]))
        elif breaks == "redirect":
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/play/reset")
            self.end_headers()
        elif breaks == "cut":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"obs')
        elif breaks == "large":
            self._raw(b'"' + b"x" * (5 << 20) + b'"')
        else:
            self._raw(breaks.encode())

    def _say(self, document: dict) -> None:
        self._raw(json.dumps(document).encode())

    def _raw(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


class Service(ThreadingHTTPServer):
    daemon_threads = True
    breaks = ""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, dict]] = []
        self.bearers: list[str | None] = []
        self.let_go = threading.Event()
        super().__init__(("127.0.0.1", 0), Guessing)
        self.address = (
            f"{'https://localhost' if tls else 'http://127.0.0.1'}:{self.server_port}/play"
        )
        if tls:
            # The handshake is made by the thread that reads, not by the one that accepts.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def handle_error(self, *args: object) -> None:
        """Ignore a client that went away, because tests do that on purpose."""

    def heard(self, path: str) -> list[dict]:
        return [body for asked, body in self.asked if asked == f"/play{path}"]

    def eventually_heard(self, path: str, times: int = 1) -> list[dict]:
        deadline = time.monotonic() + 60
        while len(self.heard(path)) < times:
            assert time.monotonic() < deadline, f"{path} was asked {len(self.heard(path))} times"
            time.sleep(0.01)
        return self.heard(path)


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Service]:
    with Service(tls) as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield server
        server.let_go.set()
        server.shutdown()
