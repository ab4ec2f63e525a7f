"""Readers for environment variables that fail loudly, naming the variable and what is right."""

import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def text(name: str, default: str = "") -> str:
    """The variable's value; `NAME_FILE` may name a file that holds it instead (secrets)."""
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE names {path!r}, which cannot be read: {error}") from error
    return os.environ.get(name, default)


def flag(name: str, default: bool) -> bool:
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of: on, off")


def number(
    name: str, default: int | None, at_least: int = 0, at_most: int | None = None
) -> int | None:
    value = os.environ.get(name)
    if value is None:
        return default
    try:
        parsed = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number") from None
    if parsed < at_least:
        raise ImproperlyConfigured(f"{name} is {parsed}; it must be at least {at_least}")
    if at_most is not None and parsed > at_most:
        raise ImproperlyConfigured(f"{name} is {parsed}; it must be at most {at_most}")
    return parsed


def choice(name: str, default: str, allowed: Sequence[str]) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of: {', '.join(allowed)}")
    return value


def names(name: str, default: str = "") -> list[str]:
    """A comma-separated list, blanks removed."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def web_address(name: str) -> str:
    """An http(s) address without what follows its path; no slash at its end."""
    value = text(name).rstrip("/")
    if value and (not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value)):
        raise ImproperlyConfigured(f"{name} is {value!r}; it reads like https://rftweb.example.org")
    return value


def places(name: str) -> list[str]:
    """A comma-separated list of hosts, `host:port` and networks like `10.1.0.0/16`; small letters."""
    listed = [entry.lower() for entry in names(name)]
    for entry in listed:
        try:
            if "/" in entry:
                ipaddress.ip_network(entry)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name} has {entry!r}; a network reads like 10.1.0.0/16, a host has no / ({error})"
            ) from None
    return listed


def secrets_of_hosts(name: str) -> dict[str, str]:
    """Secrets by host, from a comma-separated list of `host=VARIABLE`; each variable must be set."""
    found = {}
    for entry in names(name):
        host, _, variable = entry.partition("=")
        if not host or not variable or not text(variable):
            raise ImproperlyConfigured(f"{name} has {entry!r}; it reads host=VARIABLE, and the variable must hold the secret")
        found[host.lower()] = text(variable)
    return found


def shared_secret(name: str) -> str:
    """A secret of 32 characters or more that several machines are given; empty when it is not set."""
    value = text(name)
    if value and len(value) < 32:
        raise ImproperlyConfigured(
            f"{name} has fewer than 32 characters; make one with `openssl rand -hex 32`"
        )
    return value


def require_together(**values: str) -> None:
    """Refuse the first variable, by its name, where one that it needs is not set."""
    first, *others = values
    if missing := [name for name in others if values[first] and not values[name]]:
        raise ImproperlyConfigured(f"{first} is set, which also needs {', '.join(missing)}")


def secret_key(var: Path, debug: bool) -> str:
    """The signing key: the variable when set (50 characters or more), else one made once under `var/secrets`."""
    if key := text("RFTWEB_SECRET_KEY"):
        if len(key) < 50:
            raise ImproperlyConfigured("RFTWEB_SECRET_KEY has fewer than 50 characters; make one with `openssl rand -hex 32`")
        return key
    return _kept_secret(var / "secrets" / "secret_key")


def _kept_secret(path: Path) -> str:
    """Read the file, or create it with mode 0600; two first starts at once agree on one value."""
    import secrets

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_hex(32)
        file.write(key)
    return key
