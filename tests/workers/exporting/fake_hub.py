"""The endpoints of the Hub that a push uses, on loopback, over real HTTP.

They work as huggingface_hub 2.4 calls them: https://huggingface.co/docs/hub/api
"""

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import huggingface_hub

GOOD = "hf_goodgoodgood"
READ_ONLY = "hf_mayreadalone"
LARGE = 1000  # bytes from which a file is uploaded with LFS
COMMIT = "c" * 40


class FakeHub(ThreadingHTTPServer):
    """`repositories`: name → {"private", "files"}; `refused`: a path's part → (status, words)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.repositories: dict[str, dict] = {}
        self.refused: dict[str, tuple[int, str]] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    """Handler of one request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(self._body())

    do_PUT = do_POST

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, body: bytes | None) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        refused = [answer for part, answer in self.server.refused.items() if part in self.path]
        if refused:
            return self._send(refused[0][0], {"error": refused[0][1]})
        if self.path.startswith("/upload/"):  # the storage needs no token: the URL is signed
            self.server.large[self.path.rpartition("/")[2]] = body
            return self._send(200, {})
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in (GOOD, READ_ONLY):
            return self._send(401, {"error": "Invalid username or password."})
        if token == READ_ONLY and body is not None:
            return self._send(403, {"error": "You don't have the rights to create a model."})
        return self._send(*self._made(json.loads(body) if body and self._is_json() else body))

    def _is_json(self) -> bool:
        return (
            "json" in self.headers["Content-Type"] and "ndjson" not in self.headers["Content-Type"]
        )

    def _made(self, said: object) -> tuple[int, dict]:
        hub = self.server
        if self.path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if self.path == "/api/repos/create":
            name = f"{said['organization']}/{said['name']}"
            hub.repositories[name] = {"private": said.get("visibility") == "private", "files": {}}
            return 200, {"url": f"{hub.address}/{name}"}
        name = re.match(r"(?:/api/models)?/([\w.-]+/[\w.-]+?)(?:\.git)?(?:/|$)", self.path)[1]
        repository = hub.repositories.get(name)
        if repository is None:
            return 404, {"error": "Repository not found"}
        if self.path.endswith("/preupload/main"):
            files = [(one["path"], one["size"] >= LARGE) for one in said["files"]]
            modes = [
                {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
                for path, large in files
            ]
            return 200, {"files": modes}
        if self.path.endswith("/objects/batch"):
            return 200, {
                "transfer": "basic",
                "objects": [self._stored(one) for one in said["objects"]],
            }
        if self.path.endswith("/commit/main"):
            self._commit(repository, [json.loads(line) for line in said.splitlines()])
            return 200, {
                "success": True,
                "commitOid": COMMIT,
                "commitUrl": f"{hub.address}/{name}/commit/{COMMIT}",
            }
        return 200, {"id": name, "private": repository["private"], "sha": COMMIT}

    def _stored(self, one: dict) -> dict:
        upload = {"href": f"{self.server.address}/upload/{one['oid']}"}
        return {"oid": one["oid"], "size": one["size"], "actions": {"upload": upload}}

    def _commit(self, repository: dict, lines: list[dict]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repository["files"][value["path"]] = base64.b64decode(value["content"])
            if line["key"] == "lfsFile":
                content = self.server.large[value["oid"]]
                assert hashlib.sha256(content).hexdigest() == value["oid"]
                repository["files"][value["path"]] = content

    def _send(self, status: int, document: dict) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serving() -> Iterator[FakeHub]:
    """Run a hub on a free loopback port until the end of the block.

    The trainer's module switches the process offline if it was imported before; pushes run in
    separate processes, which are online.
    """
    hub = FakeHub()
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        with mock.patch.object(huggingface_hub.constants, "HF_HUB_OFFLINE", False):
            yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
