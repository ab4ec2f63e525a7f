"""A process that reads, checks and seals one model, and what it reports meanwhile."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from django.conf import settings

from apps.accounts.public_text import public_text
from apps.policies.models import ImportOver, PolicyImport

Kind = PolicyImport.Kind
KINDS = {Kind.HUB: "hub", Kind.NAMED: "named", Kind.SERVER: "path", Kind.UPLOAD: "path"}
BEGINNING = "starting"  # the stage until the process reports one
OUT_OF_MEMORY = "perhaps the machine has too little memory for this model"


class NotAdopted(Exception):
    """Raised for a model that was not added; the message says why."""


class Adoption:
    """The process for one import, as a context: it is killed when the block ends.

    `tell` stores its progress, and kills it if the import was stopped or is another worker's.
    """

    def __init__(self, policy_import: PolicyImport, source: str, folder: Path) -> None:
        self.policy_import = policy_import
        self.source = source
        self.folder = folder
        self.stage = BEGINNING
        self.done = 0
        self.total = 0
        self.is_ours = True

    def __enter__(self) -> Self:
        self.files = tempfile.TemporaryDirectory(prefix="rftweb-model-")
        self.errors = (Path(self.files.name) / "errors").open("w+", errors="replace")
        # Of a private group, so that a downloader that it starts ends with it.
        self.process = subprocess.Popen(
            self._command(),
            cwd=settings.BASE_DIR,
            env={key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self.process.wait()
        assert self.process.stdout is not None  # a pipe
        self.process.stdout.close()
        self.errors.close()
        self.files.cleanup()

    def _command(self) -> list[str]:
        policy_import = self.policy_import
        command = [sys.executable, "-m", "workers.policies.adopt", self.source, "--json"]
        command += ["--kind", KINDS[Kind(policy_import.kind)], "--out", str(self.folder)]
        command += ["--cache", str(settings.VAR / "models")]
        if policy_import.revision:
            command += ["--revision", policy_import.revision]
        if template := self._template():
            command += ["--chat-template", template]
        return command

    def _template(self) -> str:
        """Return the name of the chat template, or a file with the user's own."""
        if not self.policy_import.template_text:
            return self.policy_import.template
        path = Path(self.files.name) / "chat_template.jinja"
        path.write_text(self.policy_import.template_text, encoding="utf-8")
        return str(path)

    def tell(self) -> None:
        """Store the progress and renew the lease; end the process if the import is not ours."""
        progress = {"stage": self.stage[:100], "done": self.done, "total": self.total}
        self.is_ours = self.policy_import.renew(settings.LEASE_SECONDS, **progress)
        if not self.is_ours:
            self._kill()

    def wait(self) -> dict[str, str]:
        """Return the model's source and licence when it is sealed. Raises NotAdopted, ImportOver.

        Progress and notes are taken from the process as they come.
        """
        origin: dict[str, str] = {}
        refusal = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = _parsed(line)
            refusal = message.get("refusal", refusal)
            if "stage" in message:
                self._progress(message)
            elif "note" in message:
                self.policy_import.note(message["note"])
            elif "source" in message:
                origin = message
        status = self.process.wait()
        if not self.is_ours:
            raise ImportOver("it is no longer ours")
        if status or not origin:
            raise NotAdopted(self._why(status, refusal))
        return origin

    def _progress(self, message: dict[str, Any]) -> None:
        self.stage = message["stage"]
        self.done = message["done"]
        self.total = message["total"]

    def _why(self, status: int, refusal: str) -> str:
        """Return in one sentence why the process ended without a model."""
        if refusal:
            return public_text(
                " ".join(refusal.split()), {Path(self.source): self.policy_import.source}
            )
        if status < 0:
            name = signal.Signals(-status).name
            return f"the process that read the model was ended by {name}; {OUT_OF_MEMORY}"
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else f"the process that read the model ended with {status}"

    def _kill(self) -> None:
        if self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _parsed(line: str) -> dict[str, Any]:
    """Return the JSON object of a line; {} for other lines, which libraries print."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
