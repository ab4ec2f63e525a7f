"""Version of the code that a process runs, fixed at its start whatever is checked out later."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from django.conf import settings

LIBRARIES = ("celery", "django")


@cache
def read_code_versions() -> dict[str, str]:
    """Return versions of the code, of Python and of the libraries that every worker uses."""
    return {
        "code": name_commit(),
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def name_commit() -> str:
    """Name the commit that is checked out, `-dirty` where files differ from it.

    Without git: the commit that an image was built of, else the package's version, else `unknown`.
    """
    if (settings.BASE_DIR / ".git").exists():
        command = [
            "git",
            "-C",
            str(settings.BASE_DIR),
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ]
        try:
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=10, check=False
            )
            if process.returncode == 0:
                return process.stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            pass  # the version is another way to say it
    built_of = settings.BASE_DIR / "COMMIT"  # the Dockerfile writes it
    if built_of.exists() and (commit := built_of.read_text().strip()):
        return commit
    try:
        return version("rftweb")
    except PackageNotFoundError:
        return "unknown"
