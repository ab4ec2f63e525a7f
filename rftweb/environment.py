"""Readers of environment variables; errors name the variable and what is right."""

import contextlib
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from email.utils import parseaddr
from pathlib import Path
from typing import overload
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}
MAX_NUMBER = 1_000_000_000  # fits into the intervals and integers of the database
MAX_SHOWN = 80
HOST_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?"
HOST = rf"(?:{HOST_NAME}|\[[0-9A-Fa-f:.]+\])"


class SettingError(ImproperlyConfigured):
    """Raised for a wrong value; the message is one sentence that names the variable."""


@contextlib.contextmanager
def setting_errors_end_the_process() -> Iterator[None]:
    """Print the sentence about a wrong setting in place of a traceback, and exit with 1."""
    try:
        yield
    except SettingError as error:
        raise SystemExit(f"{error}") from None


def _shown(value: str) -> str:
    return repr(value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}…")


def text(name: str, default: str = "") -> str:
    """Return the variable's value, the default if it is empty.

    `NAME_FILE` may name a file that holds it (for secrets).
    """
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text().strip()
        except (OSError, ValueError) as error:
            raise SettingError(
                f"{name}_FILE names {path!r}, which cannot be read: {error}"
            ) from error
    return os.environ.get(name) or default


def read_flag(name: str, default: bool) -> bool:
    value = os.environ.get(name)
    if not value:
        return default
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise SettingError(f"{name} is {_shown(value)}; it must be one of: on, off")


@overload
def read_number_setting(
    name: str, default: int, minimum: int = 0, maximum: int = MAX_NUMBER
) -> int: ...
@overload
def read_number_setting(
    name: str, default: None, minimum: int = 0, maximum: int = MAX_NUMBER
) -> int | None: ...
def read_number_setting(
    name: str, default: int | None, minimum: int = 0, maximum: int = MAX_NUMBER
) -> int | None:
    value = os.environ.get(name)
    if value is None:
        return default
    try:
        parsed = int(value)
    except ValueError:
        raise SettingError(f"{name} is {_shown(value)}; it must be a whole number") from None
    if parsed < minimum:
        raise SettingError(f"{name} is {parsed}; it must be at least {minimum}")
    if parsed > maximum:
        raise SettingError(f"{name} is {parsed}; it must be at most {maximum}")
    return parsed


def choice(name: str, default: str, allowed: Sequence[str]) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise SettingError(f"{name} is {_shown(value)}; it must be one of: {', '.join(allowed)}")
    return value


def read_names(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list without blanks."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def web_address(name: str) -> str:
    """Return an http(s) URL without query and fragment; no slash at its end."""
    value = text(name).rstrip("/")
    is_read = re.fullmatch(rf"https?://{HOST}(:\d+)?(/[^\s?#]*)?", value)
    if value and not (is_read and _url(value)):
        raise SettingError(f"{name} is {_shown(value)}; it reads like https://rftweb.example.org")
    return value


def _url(value: str) -> SplitResult | None:
    """Return the parts of a URL; None if its host or port cannot be read."""
    try:
        parts = urlsplit(value)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def service_url(name: str, schemes: Sequence[str], example: str) -> str:
    """Return the URL of a service; empty if the variable is not set."""
    value = text(name)
    parts = _url(value)
    if value and (parts is None or parts.scheme not in schemes or not _names_a_service(parts)):
        raise SettingError(f"{name} is no address of that service; it reads like {example}")
    return value


def _names_a_service(parts: SplitResult) -> bool:
    """Tell whether it has a host or a socket, and for PostgreSQL the name of a database."""
    if parts.scheme.startswith("postgres"):
        return len(parts.path) > 1 or "service=" in parts.query
    return bool(parts.path if parts.scheme == "unix" else parts.hostname)


def host_names(name: str, default: str) -> list[str]:
    """Return a comma-separated list of host names, without schemes and ports."""
    listed = read_names(name, default)
    for entry in listed:
        if entry != "*" and not re.fullmatch(rf"\.?{HOST}", entry):
            raise SettingError(
                f"{name} has {_shown(entry)}; a host reads like rft.example.org, without https://"
                " and without a port"
            )
    return listed


def host_name(name: str) -> str:
    """Return a host's name or address; empty if the variable is not set."""
    value = text(name)
    if value and not re.fullmatch(HOST, value):
        raise SettingError(f"{name} is {_shown(value)}; it reads like mail.example.org")
    return value


def site_origins(name: str) -> list[str]:
    """Return a comma-separated list of origins, such as https://rft.example.org."""
    listed = read_names(name)
    for entry in listed:
        if not (re.fullmatch(rf"https?://(\*\.)?{HOST}(:\d+)?", entry) and _url(entry)):
            raise SettingError(
                f"{name} has {_shown(entry)}; an origin reads like https://rft.example.org"
            )
    return listed


def mail_sender(name: str, default: str) -> str:
    """Return the address of a sender, with or without a name before it."""
    value = text(name, default)
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(value)[1]):
        raise SettingError(f"{name} is {_shown(value)}; it reads like rftweb@example.org")
    return value


def origins(address: str) -> list[str]:
    """Return the origin of a URL in a list; an empty list for an empty URL."""
    return re.findall(r"^https?://[^/]+", address)


def project_role(name: str) -> str:
    """Return a project's slug and a role in it, as project:role; "" if the variable is not set."""
    value = text(name)
    if value and not re.fullmatch(r"[-a-zA-Z0-9_]{1,50}:(rater|viewer|researcher)", value):
        raise SettingError(
            f"{name} is {_shown(value)}; it reads like support:rater, with rater, viewer or"
            " researcher"
        )
    return value


def gpus_by_worker(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the GPUs of each worker, by index or UUID.

    In the variable, `,` separates the GPUs of one worker, and `;` separates workers.
    """
    value = text(name)
    if not value:
        return ()
    groups = [tuple(gpu.strip() for gpu in group.split(",")) for group in value.split(";")]
    for group in groups:
        wrong = [gpu for gpu in group if not re.fullmatch(r"\d{1,3}|(GPU|MIG)-[\w/-]+", gpu)]
        if wrong or len(set(group)) < len(group):
            raise SettingError(
                f"{name} is {_shown(value)}; it reads like 0 or 0,1 or 0,1;2,3: indices or UUIDs"
                " of GPUs, none twice for one worker"
            )
    return tuple(groups)


def host_and_port(name: str) -> str:
    """Return an address such as trainer-1:29400; empty if the variable is not set."""
    value = text(name)
    is_read = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*:[1-9][0-9]{0,4}", value)
    if value and not (is_read and _url(f"//{value}")):
        raise SettingError(f"{name} is {_shown(value)}; it reads like trainer-1:29400")
    return value


def read_places(name: str) -> list[str]:
    """Return a comma-separated list of hosts, `host:port` and networks, in lower case."""
    listed = [entry.lower() for entry in read_names(name)]
    for entry in listed:
        try:
            if "/" in entry:
                ipaddress.ip_network(entry)
            elif not re.fullmatch(rf"{HOST}(:\d+)?", entry) or not _url(f"//{entry}"):
                ipaddress.ip_address(entry)
        except ValueError as error:
            raise SettingError(
                f"{name} has {_shown(entry)}; a network reads like 10.1.0.0/16, a host has no /"
                f" ({error})"
            ) from None
    return listed


def secrets_of_hosts(name: str) -> dict[str, str]:
    """Return secrets by host from a comma-separated list of `host=VARIABLE`.

    Each variable must be set.
    """
    secrets = {}
    for entry in read_names(name):
        host, _, variable = entry.partition("=")
        if not host or not variable or not text(variable):
            raise SettingError(
                f"{name} has {_shown(entry)}; it reads host=VARIABLE, and the variable must hold"
                " the secret"
            )
        secrets[host.lower()] = text(variable)
    return secrets


def shared_secret(name: str) -> str:
    """Return a secret of 32 characters or more that several machines share; empty if unset."""
    value = text(name)
    if value and len(value) < 32:
        raise SettingError(
            f"{name} has fewer than 32 characters; make one with `openssl rand -hex 32`"
        )
    return value


def require_together(**values: str) -> None:
    """Refuse the first variable, by name, if another one that it needs is not set."""
    first, *required = values
    if missing := [name for name in required if values[first] and not values[name]]:
        raise SettingError(f"{first} is set, which also needs {', '.join(missing)}")


def require_both(**values: object) -> None:
    """Refuse two variables, by their names, where one is set and the other is not."""
    missing = [name for name, value in values.items() if not value]
    if len(missing) == 1:
        present = next(name for name in values if name not in missing)
        raise SettingError(f"{present} is set, which also needs {missing[0]}")


def secret_key(var: Path, debug: bool) -> str:
    """Return the signing key, from the variable (50 characters or more) or `var/secrets`.

    The file is created once.
    """
    if key := text("RFTWEB_SECRET_KEY"):
        if len(key) < 50:
            raise SettingError(
                "RFTWEB_SECRET_KEY has fewer than 50 characters; make one with `openssl rand"
                " -hex 32`"
            )
        return key
    return _kept_secret(var / "secrets" / "secret_key")


def _kept_secret(path: Path) -> str:
    """Read the file, or create it with mode 0600; two simultaneous starts get one value."""
    import secrets

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    except OSError as error:
        raise SettingError(
            f"RFTWEB_VAR names a folder in which nothing can be kept: {error.strerror}:"
            f" {_shown(str(error.filename))}"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_hex(32)
        file.write(key)
    return key
