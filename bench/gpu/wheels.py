"""Download the wheels that a GPU machine without network access lacks.

    python bench/gpu/wheels.py FOLDER

The machine is expected to have Python 3.12 on x86-64 Linux with torch 2.11, transformers 5.17 and
the packages that usually come with them (PRESENT, except those that must be newer). All other
packages of requirements/base.lock and train.lock are downloaded in the locked version. It prints
one line of JSON; the exit code is 1 if a wheel is missing or the total size is above the limit.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("base.lock", "train.lock")
LIMIT_MIB = 60
GLIBC = range(17, 40)
MACHINE = {
    "python_version": "3.12",
    "python_full_version": "3.12.3",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}
PRESENT = {
    "accelerate",
    "annotated-doc",
    "anyio",
    "attrs",
    "filelock",
    "h11",
    "hf-xet",
    "huggingface-hub",
    "idna",
    "jinja2",
    "markdown-it-py",
    "markupsafe",
    "mdurl",
    "mpmath",
    "msgpack",
    "networkx",
    "numpy",
    "packaging",
    "pandas",
    "peft",
    "prometheus-client",
    "psutil",
    "pyarrow",
    "pygments",
    "python-dateutil",
    "pyyaml",
    "regex",
    "rich",
    "safetensors",
    "setuptools",
    "shellingham",
    "six",
    "sympy",
    "tokenizers",
    "tqdm",
    "transformers",
    "typer",
    "uvloop",
    "xxhash",
}
# What the locked huggingface-hub speaks HTTP with; the one that is present has its own.
WITH_NEWER_HUB = {"httpx2", "httpcore2", "truststore"}


def main() -> int:
    options = parse_options()
    packages = list_missing_packages()
    options.folder.mkdir(parents=True, exist_ok=True)
    download_wheels(packages, options.folder)
    wheels = sorted(options.folder.glob("*.whl"))
    mib = sum(wheel.stat().st_size for wheel in wheels) / 2**20
    print(
        json.dumps(
            {
                "packages": len(packages),
                "wheels": len(wheels),
                "mib": round(mib, 1),
                "limit_mib": LIMIT_MIB,
            }
        )
    )
    return int(len(wheels) != len(packages) or mib > LIMIT_MIB)


def list_missing_packages() -> list[str]:
    """Return `name==version` of every locked package that is needed there and missing."""
    missing = set()
    for lock in LOCKS:
        for line in (ROOT / "requirements" / lock).read_text().splitlines():
            if "==" not in line or line.startswith((" ", "#")):
                continue
            requirement = Requirement(line.rstrip(" \\"))
            applies = requirement.marker is None or requirement.marker.evaluate(MACHINE)
            if applies and requirement.name not in PRESENT | WITH_NEWER_HUB:
                missing.add(f"{requirement.name}{requirement.specifier}")
    return sorted(missing)


def download_wheels(packages: list[str], folder: Path) -> None:
    """Download without dependencies: the locks are closed."""
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC] + [
        "--platform=manylinux2014_x86_64",
        "--platform=manylinux1_x86_64",
    ]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version=3.12",
            "--implementation=cp",
            *platforms,
            "--dest",
            str(folder),
            *packages,
        ],
        check=True,
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="an empty folder for the wheels")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
