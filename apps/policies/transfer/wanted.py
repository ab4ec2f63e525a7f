"""What a machine wants to have: a policy or a weight version, as rows name it; never by a path."""

import re
from dataclasses import dataclass

POLICY, VERSION = "policies", "versions"
_FINGERPRINT = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class Wanted:
    """A folder of weights. `base`: the policy that it changes, should it turn out to be an adapter.

    `title`: what people are told of it.
    """

    kind: str
    pk: int
    fingerprint: str
    title: str
    base: "Wanted | None" = None

    def __post_init__(self) -> None:
        if self.kind not in (POLICY, VERSION) or not _FINGERPRINT.fullmatch(self.fingerprint):
            raise ValueError(f"{self.title}: {self.kind} {self.fingerprint!r} is no set of weights")

    @property
    def key(self) -> str:
        """Its name in a cache: of digits, letters and hyphens alone."""
        return f"{self.kind}-{self.pk}-{self.fingerprint}"

    def path(self, name: str) -> str:
        """Where the publisher has a file of it."""
        return f"/weight-files/{self.kind}/{self.pk}/{self.fingerprint}/{name}"


class NotFetched(Exception):
    """Weights could not be brought here; the message says why. Trying again later may help."""


class Stopped(NotFetched):
    """Nobody wants them any more, or this process ends."""
