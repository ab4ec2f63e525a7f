"""Weights fetched over HTTP from a real web process: broken off, falsified, refused, bounded."""

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
LARGE = 4_000_000  # numbers, so 16 MB: more than all buffers between server and client hold


@pytest.fixture(scope="module")
def kept_web(django_db_setup, django_db_blocker) -> Iterator[WebProcess]:
    """One process for all tests here: starting takes several seconds."""
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
    """Call `publish(name, numbers=…)`: a policy over a sealed folder, and what a machine wants."""

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


def test_a_folder_arrives_bit_by_bit_and_is_fetched_once(publisher, cache, publish, web):
    folder, wanted = publish("one", numbers=LARGE)
    progress = Progress()
    held = fetch_folder(publisher, cache, wanted, progress)
    assert bytes_in(held.folder) == bytes_in(folder)
    assert verify_folder(held.folder).fingerprint == wanted.fingerprint
    assert (progress.done, progress.note) == (progress.total, "")
    assert list(cache.root.glob("*.tmp")) == []
    web.stop()  # what is here is not asked for
    assert fetch_folder(publisher, cache, wanted, Progress()).folder == held.folder
    web.start()


def test_a_transfer_goes_on_where_the_server_was_killed(publisher, cache, publish, web):
    """The server is there again before the first pause ends, however slowly it starts."""
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
    assert (fetched.folder / file).stat().st_ino == kept  # gone on with, not begun anew


def test_what_another_process_left_half_done_is_gone_on_with(publisher, cache, publish, web):
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


def test_a_falsified_file_is_refused_and_fetched_again(publisher, cache, publish):
    folder, wanted = publish("one", numbers=LARGE)
    good = (folder / MODEL).read_bytes()
    (folder / MODEL).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(NotFetched, match=f"{MODEL} did not match the manifest in 3 attempts"):
        fetch_folder(publisher, cache, wanted, Progress())
    assert cache.hold(wanted) is None
    (folder / MODEL).write_bytes(good)
    assert bytes_in(fetch_folder(publisher, cache, wanted, Progress()).folder) == bytes_in(folder)


def test_a_file_that_was_falsified_on_the_way_once_arrives_at_the_second_try(cache, publish, web):
    folder, wanted = publish("one", numbers=LARGE)
    falsifying = Falsifying(web.address, SECRET, "away")
    held = fetch_folder(falsifying, cache, wanted, Progress())
    assert bytes_in(held.folder) == bytes_in(folder)
    assert falsifying.falsified == [MODEL]


class Falsifying(Publisher):
    """A way to the publisher on which one bit of the first large chunk is turned."""

    @property
    def falsified(self) -> list[str]:
        return self.__dict__.setdefault("names", [])

    def part(self, wanted: WeightsRequest, name: str, begin: int, size: int) -> Iterator[bytes]:
        for chunk in super().part(wanted, name, begin, size):
            if name == MODEL and not self.falsified:
                self.falsified.append(name)
                chunk = bytes([chunk[0] ^ 1]) + chunk[1:]
            yield chunk


def test_a_wrong_secret_is_told_and_nothing_is_written(cache, publish, web):
    _, wanted = publish("one")
    stranger = Publisher(web.address, "t" * 32, "away")
    with pytest.raises(NotFetched) as refusal:
        fetch_folder(stranger, cache, wanted, Progress())
    assert str(refusal.value) == WRONG_SECRET
    assert not cache.root.exists()


def test_an_address_where_somebody_else_answers_is_not_believed(cache, publish, web):
    """Even where that one had the right fingerprint in a manifest of its own."""
    _, wanted = publish("one")
    other = Unsigned(web.address, SECRET, "away")
    with pytest.raises(NotFetched, match="not signed by the publisher"):
        fetch_folder(other, cache, wanted, Progress())
    assert not cache.root.exists()


class Unsigned(Publisher):
    """Signs with the right secret, and expects answers to be signed with another."""

    def _require_signed(self, answer, body: bytes) -> None:
        Publisher(self.url, "u" * 32, self.host)._require_signed(answer, body)


def test_a_publisher_that_is_away_is_told_after_a_few_tries(cache, publish, web, monkeypatch):
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


def test_weights_that_are_not_the_wanted_ones_are_refused(publisher, cache, publish):
    folder, wanted = publish("one")
    document = json.loads((folder / "manifest.json").read_text())
    document["fingerprint"] = "0" * 16
    (folder / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(NotFetched, match="different weights"):
        fetch_folder(publisher, cache, wanted, Progress())
    assert not cache.root.exists()


def test_the_least_recently_used_makes_room_and_what_is_in_use_stays(publisher, publish, tmp_path):
    size = 1_000_000  # numbers, so 4 MB
    names = ("one", "two", "three", "four")
    wanted = {name: publish(name, numbers=size, seed=n)[1] for n, name in enumerate(names)}
    cache = Cache(tmp_path / "fetched", 2 * 4 * size + 100_000)
    fetch_folder(publisher, cache, wanted["one"], Progress()).release()
    fetch_folder(publisher, cache, wanted["two"], Progress()).release()
    cache.hold(wanted["one"]).release()  # used again: now the second is the older
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


def test_files_that_are_here_under_another_name_are_linked_not_fetched(publisher, cache, publish):
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


def test_an_adapters_base_comes_first_once_and_is_found_here(publisher, cache, publish, project):
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


def test_an_adapter_over_another_base_than_the_run_has_is_refused(
    publisher, cache, publish, project
):
    _, base = publish("one")
    _, other = publish("two", seed=7)
    folder = write_adapter(cache.root.parent / "adapter", Path("/far"), other.fingerprint)
    wanted = published(project, "adapter", folder, base)
    with pytest.raises(NotFetched, match=r"its base is .*, expected"):
        fetch_folder(publisher, cache, wanted, Progress())


def test_two_that_want_the_same_fetch_it_once(publisher, cache, publish):
    """The second waits for the lock that the first one holds, whichever process it is in."""
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


def test_who_stops_wanting_is_heard_while_the_publisher_is_away(cache, publish, web):
    _, wanted = publish("one")
    away = Publisher("http://127.0.0.1:1", SECRET, "away")
    looks = []

    def leave() -> None:
        looks.append(1)
        if len(looks) > 3:
            raise Stopped("nobody wants it")

    with pytest.raises(Stopped):
        fetch_folder(away, cache, wanted, Progress(leave))
