"""Which addresses may be called: the resolved address decides, however the name is written."""

import asyncio
import ipaddress

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.environments.pull.addresses import parse_address, require_allowed_address, resolved
from apps.environments.pull.errors import BadAddress, CallFailed
from rftweb import environment


def refusal(address: str) -> str:
    with pytest.raises(BadAddress) as caught:
        asyncio.run(resolved(parse_address(address)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("file:///etc/passwd", "must begin with http://"),
        ("ftp://example.org/", "must begin with http://"),
        ("http:///reset", "must contain a host"),
        ("http://alice:secret@example.org/", "not contain a user or password"),
        ("http://example.org/?a=1", "not contain ? or #"),
        ("http://example.org/a b", "without spaces"),
        ("http://example.org\r\nHost: x/", "without spaces"),
        ("http://exämple.org/", "must be ASCII"),
        ("http://example.org:99999/", "is not an address"),
        ("http://example.org:0/", "from 1 to 65535"),
    ],
)
def test_invalid_address_is_rejected_with_the_reason(address, reason):
    with pytest.raises(BadAddress, match=reason.replace("?", r"\?")):
        parse_address(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "10.1.2.3",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "[::1]",
        "[::]",
        "[fc00::1]",
        "[fe80::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
    ],
)
def test_address_inside_this_network_is_rejected(host):
    assert "inside this network" in refusal(f"http://{host}/")


def test_internet_address_can_be_called_only_on_its_usual_ports():
    outside = ipaddress.ip_address("93.184.215.14")
    for address in ("http://example.org", "https://example.org/env", "wss://example.org"):
        require_allowed_address(parse_address(address), outside)
    with pytest.raises(BadAddress, match="neither 80 nor 443"):
        require_allowed_address(parse_address("http://example.org:6379"), outside)


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:8000"])
def test_address_listed_in_the_settings_can_be_called(settings, entry):
    settings.ENVIRONMENT_HOSTS = [entry]
    assert asyncio.run(resolved(parse_address("http://127.0.0.1:8000"))) == "127.0.0.1"


def test_listed_port_does_not_allow_other_ports(settings):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1:8000"]
    assert "inside this network" in refusal("http://127.0.0.1:8001")


def test_development_mode_allows_only_loopback_inside_this_network(settings):
    settings.DEBUG = True
    assert asyncio.run(resolved(parse_address("http://127.0.0.1:8000"))) == "127.0.0.1"
    assert "inside this network" in refusal("http://169.254.169.254/")


def test_unknown_host_name_is_a_failure_of_the_service():
    with pytest.raises(CallFailed, match="cannot be resolved"):
        asyncio.run(resolved(parse_address("http://no-such-host.invalid/")))


def test_invalid_network_in_the_setting_prevents_startup(monkeypatch):
    monkeypatch.setenv("RFTWEB_ENVIRONMENT_HOSTS", "env.example.org:8000, 10.1.2.3/8")
    with pytest.raises(ImproperlyConfigured, match=r"RFTWEB_ENVIRONMENT_HOSTS has '10\.1\.2\.3/8'"):
        environment.read_places("RFTWEB_ENVIRONMENT_HOSTS")
