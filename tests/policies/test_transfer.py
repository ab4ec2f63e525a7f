"""Weights fetched over HTTP from a real web process: interrupted, altered, refused, limited."""

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest, verify_folder
from apps.policies.models import Policy
from apps.policies.transfer import fetching
from apps.policies.transfer.cache import PART, Cache
from apps.policies.transfer.fetching import Progress, fetch_folder
from apps.policies.transfer.publisher import WRONG_SECRET, Broken, Publisher
from apps.policies.transfer.weights_request import POLICY, NotFetched, Stopped, WeightsRequest
from tests.web_process import WebProcess, Wire
from tests.weight_folders import write_adapter, write_sealed
from workers.adapters import find_adapter_base

SECRET = "s" * 32
MODEL = "model.safetensors"
GIB = 2**30
LARGE = 4_000_000  # numbers, so 16 MB: more than all buffers between server and client can hold


@pytest.fixture(scope="module")
def kept_web(django_db_setup, django_db_blocker) -> Iterator[WebProcess]:
    """Start one process for all tests of this file, because starting takes several seconds."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("RFTWEB_WEIGHTS_SECRET", SECRET)
        process = WebProcess()
        process.start()
        yield process
        process.end()


@pytest.fixture
def web(transactional_db, kept_web) -> WebProcess:
    if kept_web.process.poll() is not None:  # the last test killed it
        kept_web.start()
    return kept_web


@pytest.fixture
def publisher(web) -> Publisher:
    return Publisher(web.address, SECRET, "away")


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path / "fetched", GIB)


@pytest.fixture
def publish(project, tmp_path):
    """Return `publish(name, numbers=…)`, which creates a sealed folder and a request for it."""

    def made(name: str, **shape: int) -> tuple[Path, WeightsRequest]:
        folder = write_sealed(tmp_path / name, **shape)
        return folder, published(project, name, folder)

    return made


def published(
    project, name: str, folder: Path, base: WeightsRequest | None = None
) -> WeightsRequest:
    fingerprint = read_manifest(folder).fingerprint
    row = Policy.objects.create(
        project=project,
        slug=name,
        title=name,
        source="made for a test",
        folder=str(folder),
        fingerprint=fingerprint,
        architecture="Qwen3ForCausalLM",
        parameters=1,
        context_tokens=64,
    )
    return WeightsRequest(POLICY, row.pk, fingerprint, name, base)


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_folder_arrives_unchanged_and_is_fetched_once(publisher, cache, publish, web):
    folder, wanted = publish("one", numbers=LARGE)
    progress = Progress()
    held = fetch_folder(publisher, cache, wanted, progress)
    assert bytes_in(held.folder) == bytes_in(folder)
    assert verify_folder(held.folder).fingerprint == wanted.fingerprint
    assert (progress.done, progress.note) == (progress.total, "")
    assert list(cache.root.glob("*.tmp")) == []
    web.stop()  # weights that are here are not requested
    assert fetch_folder(publisher, cache, wanted, Progress()).folder == held.folder
    web.start()


def test_transfer_continues_after_the_server_was_killed(publisher, cache, publish, web):
    """The server is restarted before the first pause ends, even if it starts slowly."""
    folder, wanted = publish("one", numbers=LARGE)
    half = LARGE * 2
    was_killed: list[int] = []
    broken: list[tuple[str, str, int]] = []

    def kill_in_the_middle() -> None:
        if progress.done > half and not was_killed:
            was_killed.append(progress.done)
            web.kill()

    class Restarting(Progress):
        def wait(self, seconds: float, note: str) -> None:
            if not broken:
                [part] = cache.unfinished(wanted).glob(f"*{PART}")
                broken.append((note, part.name.removesuffix(PART), part.stat().st_ino))
                web.start()
            super().wait(seconds, note)

    progress = Restarting(kill_in_the_middle)
    fetched = fetch_folder(publisher, cache, wanted, progress)
    [(note, file, kept)] = broken
    assert was_killed and ("does not answer" in note or "broke" in note)
    assert bytes_in(fetched.folder) == bytes_in(folder)
    assert (fetched.folder / file).stat().st_ino == kept  # continued and not restarted


def test_partial_download_of_an_earlier_attempt_is_continued(publisher, cache, publish, web):
    folder, wanted = publish("one", numbers=LARGE)

    def stop_in_the_middle() -> None:
        if progress.done > LARGE * 2:
            raise Stopped("nobody wants it")

    progress = Progress(stop_in_the_middle)
    with pytest.raises(Stopped):
        fetch_folder(publisher, cache, wanted, progress)
    [part] = cache.unfinished(wanted).glob(f"*{PART}")
    kept = part.stat().st_ino
    size = part.stat().st_size
    assert 0 < size < (folder / MODEL).stat().st_size
    held = fetch_folder(publisher, cache, wanted, Progress())
    assert bytes_in(held.folder) == bytes_in(folder)
    assert (held.folder / MODEL).stat().st_ino == kept


def test_corrupt_file_is_refused_and_later_fetched_again(publisher, cache, publish):
    folder, wanted = publish("one", numbers=LARGE)
    good = (folder / MODEL).read_bytes()
    (folder / MODEL).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(NotFetched, match=f"{MODEL} did not match the manifest in 3 attempts"):
        fetch_folder(publisher, cache, wanted, Progress())
    assert cache.hold(wanted) is None
    (folder / MODEL).write_bytes(good)
    assert bytes_in(fetch_folder(publisher, cache, wanted, Progress()).folder) == bytes_in(folder)


def test_file_corrupted_once_in_transit_arrives_at_the_second_attempt(cache, publish, web):
    folder, wanted = publish("one", numbers=LARGE)
    falsifying = Falsifying(web.address, SECRET, "away")
    held = fetch_folder(falsifying, cache, wanted, Progress())
    assert bytes_in(held.folder) == bytes_in(folder)
    assert falsifying.falsified == [MODEL]


class Falsifying(Publisher):
    """A publisher connection that flips one bit of the first large chunk."""

    @property
    def falsified(self) -> list[str]:
        return self.__dict__.setdefault("names", [])

    def part(self, wanted: WeightsRequest, name: str, begin: int, size: int) -> Iterator[bytes]:
        for chunk in super().part(wanted, name, begin, size):
            if name == MODEL and not self.falsified:
                self.falsified.append(name)
                chunk = bytes([chunk[0] ^ 1]) + chunk[1:]
            yield chunk


def test_wrong_secret_is_reported_and_nothing_is_written(cache, publish, web):
    _, wanted = publish("one")
    stranger = Publisher(web.address, "t" * 32, "away")
    with pytest.raises(NotFetched) as refusal:
        fetch_folder(stranger, cache, wanted, Progress())
    assert str(refusal.value) == WRONG_SECRET
    assert not cache.root.exists()


def test_response_that_the_publisher_did_not_sign_is_refused(cache, publish, web):
    """This holds even if its manifest has the right fingerprint."""
    _, wanted = publish("one")
    other = Unsigned(web.address, SECRET, "away")
    with pytest.raises(NotFetched, match="not signed by the publisher"):
        fetch_folder(other, cache, wanted, Progress())
    assert not cache.root.exists()


class Unsigned(Publisher):
    """A publisher that signs with the right secret and expects responses signed with another."""

    def _require_signed(self, answer, body: bytes) -> None:
        Publisher(self.url, "u" * 32, self.host)._require_signed(answer, body)


def test_unreachable_publisher_is_reported_after_some_attempts(cache, publish, web, monkeypatch):
    monkeypatch.setattr(fetching, "FIRST_PAUSE_S", 0.01)
    _, wanted = publish("one")
    wire = Wire(web.port)
    wire.cut()
    away = Publisher(wire.address, SECRET, "away")
    with pytest.raises(Broken):
        away.clock_ahead_s()
    progress = Progress(lambda: None)
    with pytest.raises(NotFetched, match="does not answer"):
        fetch_folder(away, cache, wanted, progress)
    wire.close()
    assert not cache.root.exists()


def test_weights_with_another_fingerprint_are_refused(publisher, cache, publish):
    folder, wanted = publish("one")
    document = json.loads((folder / "manifest.json").read_text())
    document["fingerprint"] = "0" * 16
    (folder / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(NotFetched, match="different weights"):
        fetch_folder(publisher, cache, wanted, Progress())
    assert not cache.root.exists()


def test_cache_evicts_the_least_recently_used_weights_that_are_not_in_use(
    publisher, publish, tmp_path
):
    size = 1_000_000  # numbers, so 4 MB
    names = ("one", "two", "three", "four")
    wanted = {name: publish(name, numbers=size, seed=n)[1] for n, name in enumerate(names)}
    cache = Cache(tmp_path / "fetched", 2 * 4 * size + 100_000)
    fetch_folder(publisher, cache, wanted["one"], Progress()).release()
    fetch_folder(publisher, cache, wanted["two"], Progress()).release()
    cache.hold(wanted["one"]).release()  # used again, so now the second is the older
    in_use = fetch_folder(publisher, cache, wanted["three"], Progress())
    assert here(cache, wanted) == {"one", "three"}
    assert cache.used() <= cache.limit
    also_in_use = fetch_folder(publisher, cache, wanted["four"], Progress())
    assert here(cache, wanted) == {"three", "four"}
    with pytest.raises(NotFetched, match=r"not enough space.*RFTWEB_WEIGHTS_CACHE_MB"):
        fetch_folder(publisher, cache, wanted["one"], Progress())
    assert here(cache, wanted) == {"three", "four"} and cache.used() <= cache.limit
    in_use.release()
    fetch_folder(publisher, cache, wanted["one"], Progress()).release()
    assert here(cache, wanted) == {"one", "four"}
    also_in_use.release()


def here(cache: Cache, wanted: dict[str, WeightsRequest]) -> set[str]:
    return {name for name, one in wanted.items() if cache.folder(one).is_dir()}


def test_files_cached_under_another_name_are_linked(publisher, cache, publish):
    _, first = publish("one", numbers=LARGE)
    _, same = publish("copy", numbers=LARGE)
    one = fetch_folder(publisher, cache, first, Progress())
    used = cache.used()
    two = fetch_folder(publisher, cache, same, Progress())
    assert (one.folder / MODEL).stat().st_ino == (two.folder / MODEL).stat().st_ino
    assert cache.used() - used < 10_000  # a manifest
    one.release()
    two.release()
    cache.discard(first)
    assert verify_folder(two.folder).fingerprint == same.fingerprint


def test_base_of_two_adapters_is_fetched_and_found_in_the_cache(publisher, cache, publish, project):
    base_folder, base = publish("one", numbers=LARGE)
    far = Path("/nowhere/on/this/machine")
    adapters = [
        write_adapter(cache.root.parent / f"adapter-{n}", far, base.fingerprint, n) for n in (1, 2)
    ]
    wanted = [published(project, folder.name, folder, base) for folder in adapters]
    first, second = (fetch_folder(publisher, cache, one, Progress()) for one in wanted)
    for held in (first, second):
        assert find_adapter_base(held.folder) == cache.folder(base)
        assert verify_folder(held.folder).base == base.fingerprint
    assert bytes_in(cache.folder(base)) == bytes_in(base_folder)
    first.release()
    assert cache.hold(wanted[0]).folder == first.folder


def test_adapter_with_another_base_than_its_run_is_refused(publisher, cache, publish, project):
    _, base = publish("one")
    _, other = publish("two", seed=7)
    folder = write_adapter(cache.root.parent / "adapter", Path("/far"), other.fingerprint)
    wanted = published(project, "adapter", folder, base)
    with pytest.raises(NotFetched, match=r"its base is .*, expected"):
        fetch_folder(publisher, cache, wanted, Progress())


def test_concurrent_requests_for_the_same_weights_fetch_them_once(publisher, cache, publish):
    """The second waits for the lock of the first, which also works between processes."""
    _, wanted = publish("one", numbers=LARGE)
    asked: list[str] = []
    waited = threading.Event()
    results = []

    class Counting(Publisher):
        def part(self, wanted: WeightsRequest, name: str, begin: int, size: int) -> Iterator[bytes]:
            asked.append(name)
            if name == MODEL:
                waited.wait(60)
            return super().part(wanted, name, begin, size)

    counting = Counting(publisher.url, SECRET, "away")
    first = threading.Thread(
        target=lambda: results.append(fetch_folder(counting, cache, wanted, Progress())),
        daemon=True,
    )
    first.start()
    while MODEL not in asked:
        first.join(0.01)

    def second_waits() -> None:
        if progress.note:
            assert is_locked(cache.root / f"{wanted.key}.lock")
            waited.set()

    progress = Progress(second_waits)
    second = fetch_folder(counting, cache, wanted, progress)
    first.join(60)
    assert results[0].folder == second.folder
    assert sorted(asked) == sorted(read_manifest(second.folder).files)


def is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_fetch_can_be_stopped_while_the_publisher_is_unreachable(cache, publish, web):
    _, wanted = publish("one")
    away = Publisher("http://127.0.0.1:1", SECRET, "away")
    looks = []

    def leave() -> None:
        looks.append(1)
        if len(looks) > 3:
            raise Stopped("nobody wants it")

    with pytest.raises(Stopped):
        fetch_folder(away, cache, wanted, Progress(leave))
