"""Weights that a machine needs: a policy or a weight version, named by its row, never by a path."""

import re
from dataclasses import dataclass

POLICY = "policies"
VERSION = "versions"
_FINGERPRINT = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class WeightsRequest:
    """A folder of weights.

    `base` is the policy that it changes if it is an adapter. `title` is its name for people.
    """

    kind: str
    pk: int
    fingerprint: str
    title: str
    base: "WeightsRequest | None" = None

    def __post_init__(self) -> None:
        if self.kind not in (POLICY, VERSION) or not _FINGERPRINT.fullmatch(self.fingerprint):
            raise ValueError(
                f"{self.title}: {self.kind} {self.fingerprint!r} is not a set of weights"
            )

    @property
    def key(self) -> str:
        """Return its name in a cache: digits, letters and hyphens only."""
        return f"{self.kind}-{self.pk}-{self.fingerprint}"

    def path(self, name: str) -> str:
        """Return the path of one of its files on the publisher."""
        return f"/weight-files/{self.kind}/{self.pk}/{self.fingerprint}/{name}"


class NotFetched(Exception):
    """The weights could not be downloaded; the message says why. A retry may help later."""


class Stopped(NotFetched):
    """The weights are not needed any more, or this process ends."""
