"""The machine: disk, sandbox, renderer of pages, GPU."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from apps.rewards.sandbox import LANGUAGES, NoSandbox, delegation, prepare, require
from apps.tasksets import pages
from rftweb.doctor.finding import Finding, fail, ok, warn

GIB = 2**30
ENOUGH_DISK, LEAST_DISK = 10 * GIB, 2 * GIB


def check_disk() -> Iterator[Finding]:
    """Where data and weights lie, which may be two disks."""
    yield _room(settings.VAR, "RFTWEB_VAR", "the database, logs and embedded services")
    if not settings.WEIGHTS_ROOT.is_relative_to(settings.VAR):
        yield _room(settings.WEIGHTS_ROOT, "RFTWEB_WEIGHTS", "weight versions and two checkpoints a run")


def _room(folder: Path, variable: str, kept: str) -> Finding:
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    text = f"{free / GIB:.1f} GiB free under {folder}"
    if free < LEAST_DISK:
        return fail("disk", text, f"make room: {kept} lie there")
    if free < ENOUGH_DISK:
        return warn("disk", text, f"make room, or point {variable} at a larger disk")
    return ok("disk", text)


def check_sandbox() -> Iterator[Finding]:
    """Whether code that a policy wrote can be run apart from everything else."""
    try:
        require()
    except NoSandbox as why:
        yield warn(
            "sandbox",
            f"{str(why).partition(';')[0]}: code that a policy wrote is not run",
            "install Debian's package bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; "
            "on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that allows unshare)",
        )
        return
    yield ok("sandbox", f"a guest of bubblewrap's comes up, {delegation().description}")
    for language in LANGUAGES:
        yield _runs(language)


def _runs(language: str) -> Finding:
    """Whether programs in this language can be judged, compiled where they must be."""
    try:
        prepare("int main() { return 0; }" if LANGUAGES[language].is_compiled else "", language)
    except NoSandbox as why:
        return warn(
            "sandbox",
            str(why),
            f"install {LANGUAGES[language].tool} where every user can reach it, if code in {language} is to be judged",
        )
    return ok("sandbox", f"{language} is run")


def check_pages() -> Iterator[Finding]:
    """Whether HTML that a policy wrote can be seen."""
    try:
        pages.require()
        pages.rendered("<p>seen</p>")
    except (pages.NoRenderer, pages.NoPage) as why:
        yield warn("pages", f"{why}: HTML that a policy wrote is not judged", f"install {', '.join(pages.PACKAGES)}")
        return
    yield ok("pages", "a page of HTML is rendered")


def check_gpu() -> Iterator[Finding]:
    if not shutil.which("nvidia-smi"):
        yield ok("GPU", "none: engine and trainer use the CPU")
        return
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.used,driver_version", "--format=csv,noheader"]
    done = _run(*query)
    if done is None or done.returncode != 0:
        yield fail("GPU", "nvidia-smi is there but does not answer", "look at `nvidia-smi` and the driver")
        return
    for line in done.stdout.strip().splitlines():
        yield ok("GPU", line.strip())
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        yield ok("GPU", f"workers see devices {os.environ['CUDA_VISIBLE_DEVICES'] or 'none'} (CUDA_VISIBLE_DEVICES)")


def _run(*command: str) -> subprocess.CompletedProcess | None:
    """The finished command, or None when there is no such program or it hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
