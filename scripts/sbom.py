#!/usr/bin/env python3
"""Print a software bill of materials as CycloneDX 1.6 JSON. Standard library only.

    scripts/sbom.py > sbom.cdx.json     (or `make sbom`)

It lists what the locks pin (requirements/*.lock, by hash), torch, which scripts/setup installs
first, and the browser files under static/vendor. A package that several locks pin to several
versions is listed once for each version. The output depends on the tree alone, so that two people
get the same file; a serial number and a time, which would differ, are left out.
"""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _application(project)},
        "components": [*python_components(), *browser_components()],
    }
    print(json.dumps(document, indent=2))


def _application(project: dict) -> dict:
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    return {
        "type": "application",
        "bom-ref": purl,
        "name": project["name"],
        "version": project["version"],
        "licenses": [{"license": {"id": project["license"]}}],
    }


def python_components() -> list[dict]:
    """Return a component for each pinned Python package and version, with the locks that pin it."""
    locks: dict[tuple[str, str], list[str]] = defaultdict(list)
    hashes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in sorted(LOCKS.glob("*.lock")):
        for package, digests in pins(path.read_text()):
            locks[package].append(path.stem)
            hashes[package] |= digests
    locks["torch", _torch_version()].append("setup")
    return [_python(package, locks[package], hashes[package]) for package in sorted(locks)]


def pins(text: str) -> Iterator[tuple[tuple[str, str], set[str]]]:
    """Yield ((name, version), sha256 digests) for each requirement of a lock."""
    for block in re.split(r"\n(?=\S)", text):
        match = PINNED.match(block)
        if match:
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            yield (name, match[2]), set(HASH.findall(block))


def _torch_version() -> str:
    text = (ROOT / "scripts" / "setup").read_text()
    return re.search(r'^TORCH = "([^"]+)"', text, re.MULTILINE)[1]


def _python(package: tuple[str, str], locks: list[str], digests: set[str]) -> dict:
    name, version = package
    purl = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "properties": [{"name": "rftweb:lock", "value": lock} for lock in locks],
        # One pin allows several files (a wheel for each platform); any of these digests is right.
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{name}/{version}/",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(digests)],
            }
        ],
    }


def browser_components() -> list[dict]:
    """Return a component for each vendored npm package."""
    folders = sorted(path for path in (ROOT / "static" / "vendor").iterdir() if path.is_dir())
    return [_browser(*folder.name.rsplit("-", 1)) for folder in folders]


def _browser(name: str, version: str) -> dict:
    package = {"htmx": "htmx.org"}.get(name, name)  # the folder's name is the script's
    purl = f"pkg:npm/{package}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package,
        "version": version,
        "purl": purl,
        "properties": [{"name": "rftweb:lock", "value": "static/vendor/MANIFEST.json"}],
    }


if __name__ == "__main__":
    main()
