"""The audit distinguishes known vulnerabilities, none, and a failed request."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

AUDIT = Path(__file__).resolve().parents[2] / "scripts" / "audit.py"


@contextmanager
def osv(status: int, answer) -> Iterator[str]:
    """Start a service on loopback that responds to POST with `answer(queries)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            text = answer(json.loads(body)["queries"]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def audit(service: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(AUDIT), "--service", service]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def nothing(queries: list[dict]) -> str:
    return json.dumps({"results": [{} for _ in queries]})


def django(queries: list[dict]) -> str:
    """Return one vulnerability of Django on each of two pages."""
    results = []
    for query in queries:
        found = {}
        if query["package"]["purl"].startswith("pkg:pypi/django@"):
            page = query.get("page_token", "1")
            found = {"vulns": [{"id": f"TEST-{page}"}]}
            if page == "1":
                found["next_page_token"] = "2"
        results.append(found)
    return json.dumps({"results": results})


@pytest.mark.parametrize(
    ("status", "answer", "code", "said"),
    [
        (200, nothing, 0, "0 with known vulnerabilities"),
        (200, django, 1, "TEST-2, see https://osv.dev/vulnerability/TEST-2"),
        (503, nothing, 2, "answered 503"),
        (200, lambda _: "<html>", 2, "no results as OSV does"),
        (200, lambda _: '{"results": [{}]}', 2, "no results for"),
    ],
)
def test_each_response_has_its_own_exit_status(status, answer, code, said):
    with osv(status, answer) as service:
        done = audit(service)
    assert done.returncode == code and said in done.stdout + done.stderr


def test_unreachable_service_is_not_a_clean_result():
    with osv(200, nothing) as service:
        pass
    done = audit(service)
    assert done.returncode == 2 and "not audited" in done.stderr and not done.stdout
