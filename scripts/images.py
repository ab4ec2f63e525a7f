#!/usr/bin/env python3
"""Build the images of the Dockerfile, rftweb-web and rftweb-worker. Standard library only.

    scripts/images.py                     with Docker or Podman, else with buildah (as root)
    scripts/images.py --torch cpu         the worker without CUDA; the default is cuda
    scripts/images.py --extras "--with opentelemetry"    more extras of scripts/setup for the worker
    scripts/images.py --builder buildah   one of docker, podman, buildah
    scripts/images.py --target web        one image only
    scripts/images.py --store FOLDER      where buildah keeps images and layers (default: its own)

buildah needs no daemon. Its base is not fetched from a registry: where the store has no
python:3.11-slim-bookworm, debootstrap makes one of Debian's packages, with Debian's Python 3.11.

pip's settings of this machine (files and PIP_ variables) and its certificates are secrets of the
build: pip reads them, no layer holds them. Folders that the settings name are mounted read-only,
which Docker cannot do: it refuses them. RFTWEB_TORCH_INDEX is one more index for pip.
"""

from __future__ import annotations

import argparse
import configparser
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("web", "worker")
BUILDERS = ("docker", "podman", "buildah")
BASE = "docker.io/library/python:3.11-slim-bookworm"
CODENAME = "bookworm"
SUITES = (CODENAME, f"{CODENAME}-updates", f"{CODENAME}-security")
PACKAGES = ("ca-certificates", "python3", "python3-venv")  # of the base, besides Debian's minimum
MIRROR_S = 15
MOUNTED = "/run/pip"  # where folders of pip's settings are in the build
# What pip may be told about where packages come from; the rest of a machine's settings is its own.
PIP_KEYS = (
    "cert",
    "constraint",
    "extra-index-url",
    "find-links",
    "index-url",
    "no-index",
    "proxy",
    "retries",
    "timeout",
    "trusted-host",
)
PLACES = ("constraint", "extra-index-url", "find-links", "index-url")  # may name folders


class CannotBuild(RuntimeError):
    """Raised if the images cannot be built here; the message says why."""


@dataclass(frozen=True)
class Built:
    """One image: its name, seconds of the build, size in bytes."""

    name: str
    seconds: float
    size: int


@dataclass(frozen=True)
class PipSettings:
    """pip's settings for the build, as a file's text.

    mounts: folders that they name, and where each is in the build.
    """

    text: str
    mounts: dict[str, str]
    certificates: str | None


def main() -> int:
    options = parse_arguments()
    try:
        builder = options.builder or choose_builder()
        if builder == "buildah":
            make_base(options.store)
        for target in options.target or TARGETS:
            built = build_target(target, builder, options.store, options.torch, options.extras)
            size = f"{built.size / 1e6:,.0f} MB"
            print_step(f"{built.name} built by {builder} in {built.seconds:.0f} s, {size}")
    except CannotBuild as error:
        raise SystemExit(f"images: {error}") from None
    return 0


def parse_arguments() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--builder", choices=BUILDERS)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--torch", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--extras", default="", metavar="OPTIONS")
    parser.add_argument("--store", type=Path, metavar="FOLDER")
    return parser.parse_args()


def choose_builder() -> str:
    """Return the first builder that works here. Raises CannotBuild."""
    for engine in ("docker", "podman"):
        if shutil.which(engine) and succeeds([engine, "info"]):
            return engine
    if reason := why_no_buildah():
        raise CannotBuild(f"no Docker or Podman answers, and buildah cannot be used: {reason}")
    return "buildah"


def why_no_buildah() -> str:
    """Return why buildah cannot build here; empty where it can."""
    if os.geteuid() != 0:
        return "it needs root"
    missing = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    if missing:
        return f"apt-get install {' '.join(missing)}"
    if not succeeds(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]):
        return "root may not mount file systems here"
    return ""


def build_target(
    target: str, builder: str, store: Path | None, torch: str = "cuda", extras: str = ""
) -> Built:
    """Build one target of the Dockerfile as rftweb-TARGET. Raises CannotBuild."""
    name = f"rftweb-{target}"
    pip = pip_settings()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "pip.conf"
        secret.write_text(pip.text)
        command = builder_command(builder, store)
        command += build_options(builder, pip.mounts)
        command += ["--target", target, "--tag", name, "--secret", f"id=pip,src={secret}"]
        if pip.certificates:
            command += ["--secret", f"id=certificates,src={pip.certificates}"]
        command += ["--build-arg", f"COMMIT={commit()}"]
        if target == "worker":
            command += ["--build-arg", f"TORCH={torch}", "--build-arg", f"EXTRAS={extras}"]
        run_command([*command, str(ROOT)], env={**os.environ, "DOCKER_BUILDKIT": "1"})
    return Built(name, time.monotonic() - began, image_size(name, builder, store))


def commit() -> str:
    """Name the commit that is checked out, `-dirty` where files differ; empty without git."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    if shutil.which("git") is None:
        return ""
    return output([*described, "--exclude=*"], otherwise="").strip()


def builder_command(builder: str, store: Path | None) -> list[str]:
    """Return the builder's name, with the options that say where buildah's store is."""
    if builder != "buildah" or store is None:
        return [builder]
    return [builder, "--root", str(store / "root"), "--runroot", str(store / "run")]


def build_options(builder: str, mounts: dict[str, str]) -> list[str]:
    """Return the verb and the options of one builder, without what both images share.

    Raises CannotBuild for Docker where pip's settings name folders.
    """
    if builder == "docker" and mounts:
        settings = ", ".join(mounts)
        raise CannotBuild(f"pip's settings name folders, which Docker cannot mount: {settings}")
    volumes = []
    for path, place in mounts.items():
        volumes += ["--volume", f"{path}:{place}:ro"]
    if builder == "buildah":
        return ["bud", "--isolation", "chroot", "--pull-never", "--layers", "--quiet", *volumes]
    return ["build", *volumes]


def image_size(name: str, builder: str, store: Path | None) -> int:
    """Return the bytes of an image, the layers below it included."""
    command = builder_command(builder, store)
    if builder != "buildah":
        return int(output([*command, "image", "inspect", "--format", "{{.Size}}", name]))
    listed = output([*command, "images", "--json", name])
    return _bytes(next(line for line in listed.splitlines() if '"size"' in line))


def _bytes(line: str) -> int:
    """Read buildah's `"size": "176 MB"`."""
    number, unit = line.split('"')[3].split()
    return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit.upper()])


def pip_settings() -> PipSettings:
    """Read what pip on this machine knows of indexes, folders and certificates."""
    settings = {}
    listed = output([sys.executable, "-m", "pip", "config", "list"], otherwise="")
    for line in listed.splitlines():
        name, _, quoted = line.partition("=")
        key = name.rpartition(".")[2].removeprefix("default-")
        if key in PIP_KEYS:  # a PIP_ variable comes before the files, and the last one would win
            settings.setdefault(key, quoted.strip("'\""))
    if extra := os.environ.get("RFTWEB_TORCH_INDEX"):
        settings["extra-index-url"] = f"{settings.get('extra-index-url', '')} {extra}".strip()
    mounts: dict[str, str] = {}
    for key in PLACES:
        if key in settings:
            settings[key] = moved(settings[key], mounts)
    certificates = settings.get("cert") or ssl.get_default_verify_paths().cafile
    if certificates and not Path(certificates).is_file():
        certificates = None
    if certificates:
        settings["cert"] = "/run/secrets/certificates"
    return PipSettings(_as_file(settings), mounts, certificates)


def _as_file(settings: dict[str, str]) -> str:
    parser = configparser.RawConfigParser()
    parser["global"] = settings
    with tempfile.TemporaryFile("w+") as file:
        parser.write(file)
        file.seek(0)
        return file.read()


def moved(value: str, mounts: dict[str, str]) -> str:
    """Return a setting whose local paths are where the build has them; add these to `mounts`.

    No layer names a folder of this machine. An index of files (`…/simple`) has its packages beside
    it, so the folder above is mounted.
    """
    words = []
    for word in value.replace(r"\n", " ").split():
        path = Path(word.removeprefix("file://"))
        if path.is_absolute():
            folder = path.parent if path.name == "simple" else path
            place = mounts.setdefault(str(folder), f"{MOUNTED}/{len(mounts)}")
            word = word.replace(str(folder), place)
        words.append(word)
    return " ".join(words)


def make_base(store: Path | None) -> None:
    """Make the base image with debootstrap unless the store has one. Raises CannotBuild."""
    if reason := why_no_buildah():
        raise CannotBuild(f"buildah cannot be used: {reason}")
    if has_base(store):
        return
    began = time.monotonic()
    print_step(f"making {BASE} with debootstrap")
    buildah = builder_command("buildah", store)
    container = output([*buildah, "from", "scratch"]).strip()
    try:
        folder = Path(output([*buildah, "mount", container]).strip())
        fill_base(folder)
        run_command(
            [*buildah, "config", "--env", "PATH=/usr/local/bin:/usr/sbin:/usr/bin", container]
        )
        run_command([*buildah, "commit", "--quiet", container, BASE], stdout=subprocess.DEVNULL)
    finally:
        run_command([*buildah, "rm", container], stdout=subprocess.DEVNULL)
    print_step(f"base made in {time.monotonic() - began:.0f} s")


def has_base(store: Path | None) -> bool:
    return succeeds([*builder_command("buildah", store), "inspect", "--type", "image", BASE])


def fill_base(folder: Path) -> None:
    """Put Debian's minimum with Python into an empty folder, as `python` too."""
    sources = debian_sources()
    command = ["debootstrap", "--force-check-gpg", "--variant=minbase"]
    command += [f"--include={','.join(PACKAGES)}", CODENAME, str(folder)]
    if CODENAME in sources:  # otherwise debootstrap's own default
        command.append(sources[CODENAME])
    run_command(command, stdout=subprocess.DEVNULL)
    (folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    if sources:
        text = "".join(f"deb {site} {suite} main\n" for suite, site in sources.items())
        (folder / "etc/apt/sources.list").write_text(text)
    for path in folder.glob("var/cache/apt/archives/*.deb"):
        path.unlink()
    shutil.rmtree(folder / "var/lib/apt/lists")
    (folder / "var/lib/apt/lists").mkdir()


def debian_sources() -> dict[str, str]:
    """Return where this machine's apt finds the base's suites: {suite: address}."""
    targets = ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(SITE)"]
    listed = output(targets, otherwise="") if shutil.which("apt-get") else ""
    rows = [line.split() for line in listed.splitlines()]
    return {row[0]: row[2] for row in rows if row[0] in SUITES and row[1] == "main"}


def mirror_answers() -> bool:
    """Tell whether apt knows a mirror of the base's packages, and it can be reached."""
    mirror = debian_sources().get(CODENAME)
    if mirror is None:
        return False
    address = f"{mirror}/dists/{CODENAME}/InRelease"
    try:
        with urllib.request.urlopen(address, timeout=MIRROR_S) as answer:
            return answer.status == 200
    except (urllib.error.URLError, TimeoutError):
        return False


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def output(command: list[str], otherwise: str | None = None) -> str:
    """Return a command's standard output, or `otherwise` if it fails. Raises CannotBuild."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode == 0:
        return process.stdout
    if otherwise is not None:
        return otherwise
    raise CannotBuild(f"failed: {' '.join(command)}: {process.stderr.strip()[-500:]}")


def run_command(command: list[str], **popen) -> None:
    """Run a command to its end; its output is ours. Raises CannotBuild."""
    if subprocess.run(command, check=False, **popen).returncode != 0:
        raise CannotBuild(f"failed: {' '.join(command)}")


def print_step(text: str) -> None:
    print(f"images: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
