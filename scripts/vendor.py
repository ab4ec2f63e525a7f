"""Check the vendored browser files against their manifest, or fetch them again from npm.

`python scripts/vendor.py` compares every file with its sha384; `--fetch` downloads the pinned
packages with npm, copies the files named here and writes the manifest anew. Node is needed for
`--fetch` alone.
"""

import argparse
import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / "static" / "vendor"
MANIFEST = VENDOR / "MANIFEST.json"
PACKAGES = {
    "htmx.org@4.0.1": ("htmx-4.0.1", ("dist/htmx.min.js", "LICENSE")),
    "uplot@1.6.32": ("uplot-1.6.32", ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE")),
}


def digest_file(path: Path) -> str:
    return "sha384-" + base64.b64encode(hashlib.sha384(path.read_bytes()).digest()).decode()


def present() -> dict[str, str]:
    """Return the path below static/vendor → digest, for every vendored file on disk."""
    files = sorted(path for path in VENDOR.rglob("*") if path.is_file() and path != MANIFEST)
    return {path.relative_to(VENDOR).as_posix(): digest_file(path) for path in files}


def problems() -> list[str]:
    """Return the differences between the manifest and the folder; empty when they agree."""
    expected = json.loads(MANIFEST.read_text())
    actual = present()
    missing = [f"{name} is missing" for name in expected.keys() - actual.keys()]
    strange = [f"{name} is not in the manifest" for name in actual.keys() - expected.keys()]
    changed = [
        f"{name} was changed"
        for name in expected.keys() & actual.keys()
        if expected[name] != actual[name]
    ]
    return sorted(missing + strange + changed)


def fetch_vendored() -> None:
    for package, (folder, names) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(
                ["npm", "pack", "--silent", package],
                cwd=scratch,
                check=True,
                capture_output=True,
                timeout=120,
            )
            (archive,) = Path(scratch).glob("*.tgz")
            with tarfile.open(archive) as tar:
                for name in names:
                    target = VENDOR / folder / Path(name).name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(
                        _without_source_map(tar.extractfile(f"package/{name}").read())
                    )
    MANIFEST.write_text(json.dumps(present(), indent=2) + "\n")


def _without_source_map(content: bytes) -> bytes:
    """Drop the pointer to a map that is not vendored: browsers would ask for it and log a 404."""
    return b"".join(
        line
        for line in content.splitlines(keepends=True)
        if not line.startswith(b"//# sourceMappingURL")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="download the pinned packages and rewrite the manifest",
    )
    if parser.parse_args().fetch:
        fetch_vendored()
    differences = problems()
    print("\n".join(differences) or f"{len(present())} vendored files agree with the manifest")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
