"""Models of the Hub are downloaded at one commit with progress, or refused with one sentence."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import pytest

from apps.policies.manifest import verify_folder
from workers.policies.hub import NotDownloaded, download_model
from workers.policies.tiny import build_tiny

COMMIT = "c" * 40
ROOT = Path(__file__).resolve().parents[2]


class Hub(ThreadingHTTPServer):
    """A Hub with one repository, owner/tiny, at one commit, or one refusal for all requests."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.folder = folder
        self.refusal: tuple[int, str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.server.refusal:
            status, code = self.server.refusal
            return self._send(status, b"{}", {"X-Error-Code": code})
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/owner/tiny"):
            return self._send(200, json.dumps(self._document(path)).encode(), {})
        file = self.server.folder / path.removeprefix(f"/owner/tiny/resolve/{COMMIT}/")
        if not file.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        return self._send(
            200, file.read_bytes(), {"X-Repo-Commit": COMMIT, "ETag": f'"{file.name}"'}
        )

    def _document(self, path: str) -> object:
        sizes = {one.name: one.stat().st_size for one in sorted(self.server.folder.iterdir())}
        if "/tree/" in path:
            return [
                {"type": "file", "oid": "0" * 40, "size": size, "path": name}
                for name, size in sizes.items()
            ]
        siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
        return {"id": "owner/tiny", "sha": COMMIT, "siblings": siblings}

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    folder = tmp_path / "repository"
    build_tiny(folder)
    (folder / "manifest.json").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    served = Hub(folder)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", served.address)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    yield served
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.mark.slow
def test_hub_model_is_sealed_at_its_commit_and_reports_its_progress(hub, tmp_path):
    command = [sys.executable, "-m", "workers.policies.adopt", "owner/tiny", "--kind", "hub"]
    offline = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # set by a trainer that this process ran
    hidden = {key: value for key, value in os.environ.items() if key not in offline}
    done = subprocess.run(
        [*command, "--json", "--out", str(tmp_path / "sealed")],
        cwd=ROOT,
        env={**hidden, "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said[-1] == {"source": f"owner/tiny@{COMMIT[:12]}", "licence": ""}
    stages = list(dict.fromkeys(one["stage"] for one in said if "stage" in one))
    assert stages == ["downloading", "checking and hashing", "probing", "sealing"]
    assert said[0]["total"] > 10_000
    assert "pytorch_model.bin" not in verify_folder(tmp_path / "sealed").files


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        ((404, "RepoNotFound"), "the Hub has no model 'owner/tiny', or it is private"),
        ((404, "RevisionNotFound"), "the repository has no revision 'v2'"),
        ((403, "GatedRepo"), "its owner asks you to accept terms"),
        ((418, ""), "the Hub answered 418"),
    ],
)
def test_refusal_of_the_hub_is_reported_in_one_sentence(hub, tmp_path, refusal, sentence):
    hub.refusal = refusal
    with pytest.raises(NotDownloaded, match=sentence):
        download_model("owner/tiny", "v2", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_repository_without_safetensors_is_refused_before_the_download(hub, tmp_path):
    (hub.folder / "model.safetensors").unlink()
    with pytest.raises(NotDownloaded, match="no safetensors"):
        download_model("owner/tiny", "main", tmp_path / "model")


def test_model_too_large_for_the_disk_is_refused_before_download(hub, tmp_path, monkeypatch):
    full = type("Usage", (), {"free": 10})()
    monkeypatch.setattr("workers.policies.hub.shutil.disk_usage", lambda _: full)
    with pytest.raises(NotDownloaded, match="GB left"):
        download_model("owner/tiny", "main", tmp_path / "model")


def test_unreachable_hub_is_reported(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NotDownloaded, match="the Hub cannot be reached: ConnectError"):
        download_model("owner/tiny", "main", tmp_path / "model")
