"""Weights that other machines fetch from here, or that this one fetches from another."""

from collections.abc import Iterator

from django.conf import settings

from apps.policies.transfer.publisher import Broken, Publisher
from apps.policies.transfer.signing import SKEW_S
from apps.policies.transfer.wanted import NotFetched
from rftweb.doctor.finding import Finding, fail, ok, warn

CLOCK_WARNS_S = SKEW_S / 3
MEND_CLOCK = "set both machines' clocks by NTP: a signature of another time is refused"


def check_weights() -> Iterator[Finding]:
    """Reachable, the same secret, and clocks that agree; nothing where weights lie in a shared folder."""
    if not settings.WEIGHTS_URL:
        if settings.WEIGHTS_SECRET:
            yield ok("weights", "handed out to machines that hold RFTWEB_WEIGHTS_SECRET")
        return
    address = settings.WEIGHTS_URL
    publisher = Publisher.of_settings(address, settings.WEIGHTS_SECRET)
    try:
        ahead = publisher.clock_ahead_s()
    except Broken as why:
        mend = "start a web process there, or correct RFTWEB_WEIGHTS_URL"
        yield fail("weights", f"{address}: {why}", mend)
        return
    except NotFetched as why:
        mend = "make RFTWEB_WEIGHTS_SECRET the same on both machines, and look at their clocks"
        yield fail("weights", f"{address}: {why}", mend)
        return
    kept = f"up to {settings.WEIGHTS_CACHE_MB} MB kept under {settings.WEIGHTS_ROOT / 'fetched'}"
    yield ok("weights", f"fetched from {address}, {kept}")
    if abs(ahead) > CLOCK_WARNS_S:
        yield warn("weights", f"the publisher's clock is {ahead:+.0f} s off ours", MEND_CLOCK)
    if address.startswith("http://"):
        words = f"{address} is not encrypted: who reads along sees the weights"
        yield warn("weights", words, "use https:// unless the network is private")
