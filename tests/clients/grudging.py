"""A small real server with predefined responses: statuses, and connections that it closes without
a response.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True)
class Said:
    """One response; with `status` 0 the connection is closed without one."""

    status: int
    document: object = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Heard:
    method: str
    path: str
    headers: dict[str, str]
    body: object
    at: float


class Grudging:
    """A server that sends these responses in turn, repeats the last, and records the requests."""

    def __init__(self, *answers: Said) -> None:
        self.answers = list(answers)
        self.heard = []
        grudging = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                sent = {name.lower(): value for name, value in self.headers.items()}
                grudging.heard.append(
                    Heard(
                        self.command, self.path, sent, json.loads(body or "null"), time.monotonic()
                    )
                )
                said = grudging.answers.pop(0) if len(grudging.answers) > 1 else grudging.answers[0]
                if said.status:
                    self._say(said)

            def _say(self, said: Said) -> None:
                body = (
                    said.document.encode()
                    if isinstance(said.document, str)
                    else json.dumps(said.document).encode()
                )
                self.send_response(said.status)
                for name, value in {**said.headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing: tests read `heard`."""

            do_GET = do_POST = do_PATCH = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
