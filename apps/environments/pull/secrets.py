"""Secrets that a called service is shown: the installation's own, by host, never stored and never told to anybody else."""

import ipaddress

from django.conf import settings

from apps.environments.pull.addresses import Address
from apps.environments.pull.errors import BadAddress


def secret_of(setting: str, address: Address, machine: str) -> str:
    """What the setting (JUDGE_KEYS, ENVIRONMENT_KEYS) has for this service, by `host:port` or host; empty where it has nothing.

    `machine` is what the host resolved to. Raises BadAddress where the secret would travel in the clear.
    """
    secrets = getattr(settings, setting)
    secret = secrets.get(address.authority) or secrets.get(address.host, "")
    if secret and address.tls is None and not ipaddress.ip_address(machine.partition("%")[0]).is_loopback:
        secure = "wss" if address.scheme == "ws" else "https"
        raise BadAddress(f"{address.host} has a secret in RFTWEB_{setting}, which goes over {secure}:// alone")
    return secret
