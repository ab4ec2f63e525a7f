"""Check which addresses may be called, and choose the one machine that a session connects to.

A user who may register an environment must not reach through it what only this machine can reach.
The name is resolved once, all its addresses are checked, and the connection goes to a checked one.
Redirects are not followed: they count as invalid replies.
"""

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from django.conf import settings

from apps.environments.pull.errors import BadAddress, CallFailed

PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
TLS = ("https", "wss")
IP = ipaddress.IPv4Address | ipaddress.IPv6Address
# The last 32 bits are the IPv4 address behind a NAT64 gateway.
NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Address:
    """The address of a service; `path` has no slash at its end."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def tls(self) -> ssl.SSLContext | None:
        return _tls_context() if self.scheme in TLS else None

    @property
    def tls_name(self) -> str | None:
        """Return the name that the certificate must show, whatever it resolved to."""
        return self.host if self.scheme in TLS else None


@cache
def _tls_context() -> ssl.SSLContext:
    """Return a cached TLS context: loading the system certificates takes longer than a request."""
    return ssl.create_default_context()


def unreachable(error: Exception) -> CallFailed:
    """Return an error that says why no connection was made."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CallFailed(
            f"cannot be reached: its certificate is not trusted: {error.verify_message}"
        )
    return CallFailed(f"cannot be reached: {error}")


def parse_address(text: str) -> Address:
    """Parse an address. Raises BadAddress for anything but a plain http(s) or ws(s) address."""
    if not text.isascii() or any(character <= " " or character == "\x7f" for character in text):
        raise BadAddress("must be ASCII, without spaces")
    try:
        parts = urlsplit(text)
        host = parts.hostname
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"is not an address: {error}") from None
    if parts.scheme not in PORTS:
        raise BadAddress(f"must begin with {', '.join(f'{scheme}://' for scheme in PORTS)}")
    if not host:
        raise BadAddress("must contain a host")
    if parts.username is not None or parts.password is not None:
        raise BadAddress("must not contain a user or password")
    if parts.query or parts.fragment:
        raise BadAddress("must not contain ? or #")
    if port == 0:
        raise BadAddress("its port must be from 1 to 65535")
    return Address(parts.scheme, host.lower(), port or PORTS[parts.scheme], parts.path.rstrip("/"))


async def resolved(address: Address) -> str:
    """Return the IP address to connect to.

    Raises CallFailed if the name is unknown, BadAddress if it may not be called.
    """
    loop = asyncio.get_running_loop()
    try:
        address_infos = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise CallFailed(f"{address.host} cannot be resolved: {error}") from None
    machines = [str(place[0]) for *_, place in address_infos]
    for machine in machines:
        require_allowed_address(address, ipaddress.ip_address(machine.partition("%")[0]))
    return machines[0]


def require_allowed_address(address: Address, ip: IP) -> None:
    """Raise BadAddress unless the address is public, or on this installation's list."""
    meant = _wrapped_address(ip)
    if _is_listed(address, meant) or (settings.DEBUG and meant.is_loopback):
        return
    if not meant.is_global or meant.is_multicast or meant.is_reserved:
        raise BadAddress(
            f"{address.host} is {meant}, inside this network: an administrator can allow it in "
            "RFTWEB_ENVIRONMENT_HOSTS"
        )
    if address.port != PORTS[address.scheme]:
        raise BadAddress(
            f"port {address.port} of {address.host} is neither 80 nor 443: an administrator can "
            f"allow {address.authority} in RFTWEB_ENVIRONMENT_HOSTS"
        )


def _wrapped_address(ip: IP) -> IP:
    """Return the IPv4 address that an IPv6 address wraps, if it does."""
    if ip.version == 4:
        return ip
    if ip in NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def _is_listed(address: Address, ip: IP) -> bool:
    names = (address.host, f"{address.host}:{address.port}", address.authority, str(ip))
    return any(
        ip in ipaddress.ip_network(entry) if "/" in entry else entry in names
        for entry in settings.ENVIRONMENT_HOSTS
    )
