"""Secrets for called services: the installation's own, by host, never stored or shown elsewhere."""

import ipaddress

from django.conf import settings

from apps.environments.pull.addresses import Address
from apps.environments.pull.errors import BadAddress


def find_secret(setting: str, address: Address, machine: str) -> str:
    """Return the secret of the setting (JUDGE_KEYS, ENVIRONMENT_KEYS) for this service, or "".

    Settings are keyed by `host:port` or host. `machine` is the address that the host resolved to.
    Raises BadAddress if the secret would be sent without encryption.
    """
    secrets = getattr(settings, setting)
    secret = secrets.get(address.authority) or secrets.get(address.host, "")
    if (
        secret
        and address.tls is None
        and not ipaddress.ip_address(machine.partition("%")[0]).is_loopback
    ):
        secure = "wss" if address.scheme == "ws" else "https"
        raise BadAddress(
            f"{address.host} has a secret in RFTWEB_{setting}, which is sent only over {secure}://"
        )
    return secret
