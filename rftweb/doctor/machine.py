"""Checks of the machine: disk, sandbox, page renderer, GPU."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from apps.rewards.sandbox import (
    LANGUAGES,
    NoSandbox,
    delegation,
    forking,
    prepare_program,
    require_tool,
)
from apps.tasksets import pages
from rftweb.doctor.finding import Finding, failed_finding, ok, warn

GIB = 2**30
ENOUGH_DISK = 10 * GIB
MIN_DISK_BYTES = 2 * GIB


def check_disk() -> Iterator[Finding]:
    """Check the free space for data and weights, which may be on two disks."""
    yield _room(settings.VAR, "RFTWEB_VAR", "the database, logs and embedded services")
    if not settings.WEIGHTS_ROOT.is_relative_to(settings.VAR):
        yield _room(
            settings.WEIGHTS_ROOT, "RFTWEB_WEIGHTS", "weight versions and two checkpoints a run"
        )


def _room(folder: Path, variable: str, contents: str) -> Finding:
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    text = f"{free / GIB:.1f} GiB free under {folder}"
    if free < MIN_DISK_BYTES:
        return failed_finding("disk", text, f"free some space: {contents} are stored there")
    if free < ENOUGH_DISK:
        return warn("disk", text, f"free some space, or set {variable} to a larger disk")
    return ok("disk", text)


def check_sandbox() -> Iterator[Finding]:
    """Check that code written by a policy can run in isolation."""
    try:
        require_tool()
    except NoSandbox as why:
        yield warn(
            "sandbox",
            f"{str(why).partition(';')[0]}: code from policies cannot run",
            "install Debian's package bubblewrap, and allow user namespaces (sysctl"
            " kernel.unprivileged_userns_clone=1; on Ubuntu"
            " kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that"
            " allows unshare)",
        )
        return
    yield ok("sandbox", f"bubblewrap works, {delegation().description}")
    for language in LANGUAGES:
        yield _runs(language)
    yield _forks()


def _forks() -> Finding:
    """Check that sandboxes are forked from a server, which is several times as fast."""
    prepare_program("", "python").run(b"")
    if why := forking.why_not_forked():
        return warn(
            "sandbox",
            f"each sandbox starts its own interpreter: {why}",
            (
                "allow bubblewrap's processes to create user namespaces and mount /proc; without "
                "this, scoring code is slower but equally safe"
            ),
        )
    return ok("sandbox", "sandboxes for Python and compiled programs are forked from a server")


def _runs(language: str) -> Finding:
    """Check that programs in this language can be compiled and judged."""
    try:
        prepare_program(
            "int main() { return 0; }" if LANGUAGES[language].is_compiled else "", language
        )
    except NoSandbox as why:
        return warn(
            "sandbox",
            str(why),
            (
                f"install {LANGUAGES[language].tool} for all users if you want to score code in "
                f"{language}"
            ),
        )
    return ok("sandbox", f"{language} can run")


def check_pages() -> Iterator[Finding]:
    """Check that HTML written by a policy can be rendered."""
    try:
        pages.require_renderer()
        pages.render_page("<p>seen</p>")
    except (pages.NoRenderer, pages.NoPage) as why:
        yield warn(
            "pages",
            f"{why}: HTML from policies cannot be scored",
            f"install {', '.join(pages.PACKAGES)}",
        )
        return
    yield ok("pages", "an HTML page was rendered")


def check_gpu() -> Iterator[Finding]:
    if not shutil.which("nvidia-smi"):
        yield ok("GPU", "none: engine and trainer use the CPU")
        return
    query = [
        "nvidia-smi",
        "--query-gpu=name,memory.total,memory.used,driver_version",
        "--format=csv,noheader",
    ]
    process = _run(*query)
    if process is None or process.returncode != 0:
        yield failed_finding(
            "GPU",
            "nvidia-smi is installed but does not respond",
            "check `nvidia-smi` and the driver",
        )
        return
    for line in process.stdout.strip().splitlines():
        yield ok("GPU", line.strip())
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        yield ok(
            "GPU",
            f"workers see devices {os.environ['CUDA_VISIBLE_DEVICES'] or 'none'}"
            " (CUDA_VISIBLE_DEVICES)",
        )
    chosen = {"explorer": settings.EXPLORER_GPUS, "trainer": settings.TRAINER_GPUS}
    for role, groups in chosen.items():
        if groups:
            pinned = "; ".join(", ".join(group) for group in groups)
            yield ok("GPU", f"each {role} sees {pinned} (RFTWEB_{role.upper()}_GPU)")


def _run(*command: str) -> subprocess.CompletedProcess | None:
    """Return the finished command, or None if it does not exist or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
