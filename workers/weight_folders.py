"""Local folders of weights: in the shared folder, or fetched from a publisher.

With RFTWEB_WEIGHTS_URL set, the paths in the database are the publisher's and nothing here reads
them: a thread beside the explorer's loop fetches what is needed (apps.policies.transfer), and the
loop serves other runs meanwhile.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import structlog
from django.conf import settings

from apps.policies.models import Policy
from apps.policies.transfer.cache import MB, Cache, HeldFolder
from apps.policies.transfer.fetching import Progress, fetch_folder
from apps.policies.transfer.publisher import Publisher
from apps.policies.transfer.weights_request import (
    POLICY,
    VERSION,
    NotFetched,
    Stopped,
    WeightsRequest,
)
from apps.runs.models import Run, WeightVersion
from apps.streaming import worker_notifications
from workers import stop_request

log = structlog.get_logger(__name__)
FIRST_PAUSE_S = 2.0
MAX_PAUSE_S = 60.0  # seconds after a failed fetch, before the next


def are_fetched() -> bool:
    """Tell whether this machine fetches weights instead of using the shared folder."""
    return bool(settings.WEIGHTS_URL)


def of_policy(policy: Policy) -> Path:
    """Return the policy's local folder. Raises NotFetched while it is not here."""
    if not are_fetched():
        return Path(policy.folder)
    return _arrivals().folder(_request_policy(policy))


def of_version(version: WeightVersion) -> Path:
    """Return the version's local folder. Raises NotFetched while it is not here."""
    if not are_fetched():
        return Path(version.folder)
    return _arrivals().folder(_request_version(version))


def describe_missing_weights(run: Run, version: WeightVersion) -> str:
    """Return which weights the run waits for; empty once its policy and this version are here.

    They are fetched in the background, and stay until the run wants others, or `forget_all_but`.
    """
    if not are_fetched():
        return ""
    return _arrivals().missing(run.pk, (_request_policy(run.policy), _request_version(version)))


def fetch_again(version: WeightVersion, damage: str) -> bool:
    """Fetch a folder that does not load once more, since it may have been damaged here.

    Returns whether it will be.
    """
    return are_fetched() and _arrivals().fetch_again(_request_version(version), damage)


def forget_all_but(runs: Collection[int]) -> None:
    """Release the weights of runs (ids) that are no longer explored here."""
    if are_fetched():
        _arrivals().forget_all_but(runs)


@contextlib.contextmanager
def brought(weights: WeightVersion | Policy, is_left: Callable[[], bool]) -> Iterator[Path]:
    """Yield their folder, fetched in this thread if need be, and kept until the block ends.

    `is_left` tells whether nobody wants it any more. Raises NotFetched.
    """
    if not are_fetched():
        yield Path(weights.folder)
        return

    def require_needed() -> None:
        if is_left() or stop_request.is_asked():
            raise Stopped("it was left")

    arrivals = _arrivals()
    progress = Progress(require_needed)
    held_folder = fetch_folder(
        arrivals.publisher, arrivals.cache, _request_weights(weights), progress
    )
    try:
        yield held_folder.folder
    finally:
        held_folder.release()


def stop_fetching() -> None:
    """Stop the fetch in progress; partial files are kept for the next process."""
    if are_fetched():
        _arrivals().stop()
        _arrivals_from.cache_clear()


def _request_weights(weights: WeightVersion | Policy) -> WeightsRequest:
    return _request_policy(weights) if isinstance(weights, Policy) else _request_version(weights)


def _request_policy(policy: Policy) -> WeightsRequest:
    return WeightsRequest(POLICY, policy.pk, policy.fingerprint, f"policy {policy.slug}")


def _request_version(version: WeightVersion) -> WeightsRequest:
    base = _request_policy(version.run.policy)
    title = f"version {version.version}"
    return WeightsRequest(VERSION, version.pk, version.fingerprint, title, base)


def _arrivals() -> "Arrivals":
    root = settings.WEIGHTS_ROOT / "fetched"
    limit = settings.WEIGHTS_CACHE_MB * MB
    return _arrivals_from(settings.WEIGHTS_URL, settings.WEIGHTS_SECRET, root, limit)


@cache
def _arrivals_from(url: str, secret: str, root: Path, limit: int) -> "Arrivals":
    return Arrivals(Publisher.of_settings(url, secret), Cache(root, limit))


@dataclass(frozen=True)
class Failure:
    """The reason for a failed fetch, its pause, and the pause's end (monotonic seconds)."""

    reason: str
    pause_s: float
    until: float


class Arrivals:
    """The weights that this process's runs want, and a thread that fetches them one by one."""

    def __init__(self, publisher: Publisher, cache: Cache) -> None:
        self.publisher = publisher
        self.cache = cache
        self._changed = threading.Condition()
        self._requested: dict[int, tuple[WeightsRequest, ...]] = {}  # by the run's id
        # Keyed by the requested weights.
        self._held: dict[str, HeldFolder] = {}
        self._failures: dict[str, Failure] = {}
        self._damaged: set[str] = set()
        self._now: WeightsRequest | None = None
        self._progress = Progress()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def folder(self, request: WeightsRequest) -> Path:
        with self._changed:
            held = self._held.get(request.key)
        if held is None:
            raise NotFetched(f"{request.title} is not downloaded yet")
        return held.folder

    def missing(self, run: int, needs: tuple[WeightsRequest, ...]) -> str:
        with self._changed:
            if self._requested.get(run) != needs:
                self._requested[run] = needs
                self._release_unneeded()
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._bring, name="weights", daemon=True)
                self._thread.start()
            lacking = [request for request in needs if request.key not in self._held]
            return self._status_text(lacking[0]) if lacking else ""

    def fetch_again(self, request: WeightsRequest, damage: str) -> bool:
        with self._changed:
            if request.key in self._damaged:
                return False
            self._damaged.add(request.key)
            if held := self._held.pop(request.key, None):
                held.release()
            self.cache.discard(request)
            self._changed.notify()
        log.warning("local_weights_damaged", weights=request.title, reason=damage)
        return True

    def forget_all_but(self, runs: Collection[int]) -> None:
        with self._changed:
            dropped = self._requested.keys() - set(runs)
            for run in dropped:
                del self._requested[run]
            if dropped:
                self._release_unneeded()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._requested.clear()
            self._release_unneeded()
            self._changed.notify()

    def _release_unneeded(self) -> None:
        """Release weights that no run wants. Called with the lock."""
        keys = {request.key for needs in self._requested.values() for request in needs}
        for key in self._held.keys() - keys:
            self._held.pop(key).release()
        self._failures = {key: why for key, why in self._failures.items() if key in keys}

    def _status_text(self, request: WeightsRequest) -> str:
        """Return the status of weights that are not here. Called with the lock."""
        if request.key in self._failures:
            return f"{request.title}: {self._failures[request.key].reason}"
        if self._now is None or self._now.key != request.key:
            return f"{request.title} is next to be downloaded"
        progress = self._progress
        title = progress.title or request.title
        if progress.note:
            return f"{title}: {progress.note}"
        percent = 100 * progress.done // max(progress.total, 1)
        return f"downloading {title}: {percent} % of {progress.total / MB:.1f} MB"

    # -- the thread

    def _bring(self) -> None:
        while (request := self._next()) is not None:
            try:
                held_folder = fetch_folder(self.publisher, self.cache, request, self._progress)
            except Stopped:
                continue
            except NotFetched as why:
                self._fail(request, str(why))
            except Exception as error:
                log.exception("weights_fetch_failed", weights=request.title)
                self._fail(request, f"{type(error).__name__}: {error}")
            else:
                self._take(request, held_folder)

    def _next(self) -> WeightsRequest | None:
        """Wait for something to fetch; return None once this process stops."""
        with self._changed:
            self._now = None
            while not self._is_stopping and not stop_request.is_asked():
                lacking = self._lacking()
                now = time.monotonic()
                ready = [request for request in lacking if self._rests_until(request) <= now]
                if ready:
                    self._now = ready[0]
                    self._progress = Progress(self._require_needed)
                    return self._now
                rests = [self._rests_until(request) - now for request in lacking]
                self._changed.wait(min(rests, default=None))
            return None

    def _lacking(self) -> list[WeightsRequest]:
        requests = {request.key: request for needs in self._requested.values() for request in needs}
        return [request for key, request in requests.items() if key not in self._held]

    def _rests_until(self, request: WeightsRequest) -> float:
        failure = self._failures.get(request.key)
        return failure.until if failure else 0.0

    def _require_needed(self) -> None:
        with self._changed:
            is_needed = self._now in self._lacking()
        if not is_needed or self._is_stopping or stop_request.is_asked():
            raise Stopped("no longer needed")

    def _fail(self, request: WeightsRequest, reason: str) -> None:
        with self._changed:
            before = self._failures.get(request.key)
            pause = min(2 * before.pause_s, MAX_PAUSE_S) if before else FIRST_PAUSE_S
            self._failures[request.key] = Failure(reason, pause, time.monotonic() + pause)
            self._release_unneeded()
        log.error("weights_not_fetched", weights=request.title, reason=reason, again_in_s=pause)

    def _take(self, request: WeightsRequest, held_folder: HeldFolder) -> None:
        with self._changed:
            self._failures.pop(request.key, None)
            self._held[request.key] = held_folder
            self._release_unneeded()
        log.info("weights_fetched", weights=request.title, folder=held_folder.folder.name)
        worker_notifications.notify_workers("explore")
