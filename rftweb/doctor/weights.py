"""Checks of transferring weights between this machine and others."""

from collections.abc import Iterator

from django.conf import settings

from apps.policies.transfer.publisher import Broken, Publisher
from apps.policies.transfer.signing import SKEW_S
from apps.policies.transfer.weights_request import NotFetched
from rftweb.doctor.finding import Finding, failed_finding, ok, warn

CLOCK_WARNS_S = SKEW_S / 3
MEND_CLOCK = (
    "synchronize the clocks of both machines with NTP: signatures with another time are rejected"
)


def check_weights() -> Iterator[Finding]:
    """Check that the publisher is reachable, with the same secret and a similar clock.

    Reports nothing if weights are in a shared folder.
    """
    if not settings.WEIGHTS_URL:
        if settings.WEIGHTS_SECRET:
            yield ok("weights", "served to machines that have RFTWEB_WEIGHTS_SECRET")
        return
    address = settings.WEIGHTS_URL
    publisher = Publisher.of_settings(address, settings.WEIGHTS_SECRET)
    try:
        ahead = publisher.clock_ahead_s()
    except Broken as why:
        mend = "start a web process there, or correct RFTWEB_WEIGHTS_URL"
        yield failed_finding("weights", f"{address}: {why}", mend)
        return
    except NotFetched as why:
        mend = (
            "set RFTWEB_WEIGHTS_SECRET to the same value on both machines, and check their clocks"
        )
        yield failed_finding("weights", f"{address}: {why}", mend)
        return
    cache_words = (
        f"up to {settings.WEIGHTS_CACHE_MB} MB kept under {settings.WEIGHTS_ROOT / 'fetched'}"
    )
    yield ok("weights", f"fetched from {address}, {cache_words}")
    if abs(ahead) > CLOCK_WARNS_S:
        yield warn("weights", f"the publisher's clock differs by {ahead:+.0f} s", MEND_CLOCK)
    if address.startswith("http://"):
        words = f"{address} is not encrypted: others on the network can read the weights"
        yield warn("weights", words, "use https:// unless the network is private")
