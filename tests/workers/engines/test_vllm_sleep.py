"""An engine that releases GPU memory between rollouts. On a CPU, vLLM accepts the calls but frees
nothing, so the weights that level 2 drops on a GPU are zeroed here.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest
from tests.workers.engines.talking import Talk, Tolerance, ask, build_loud, gaps
from workers.engines.interface import Engine, ParityError, Sampling
from workers.engines.vllm_options import VllmOptions

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
TOLERANCE = Tolerance(0.02, 0.2)
SHORT = Sampling(max_tokens=6)
LONG = Sampling(max_tokens=600)
# Longer than the blocks of 128 tokens that vLLM caches prefixes by on a CPU.
PROMPTS = [tuple(2 + (place * step) % 17 for place in range(300)) for step in (1, 3, 5, 7)]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folders = [tmp_path_factory.mktemp("policies") / name for name in ("old", "new")]
    for seed, folder in enumerate(folders):
        build_loud(folder, seed=seed, hidden=64, layers=2, context=1024)
    return tuple(folders)


def started(folder: Path, level: int) -> Engine:
    from workers.engines.vllm import VllmEngine

    engine = VllmEngine(1.0, seed=0, options=VllmOptions(sleep_level=level, max_text_tokens=1000))
    engine.start(folder, 1, read_manifest(folder).probe)
    return engine


@pytest.fixture(scope="module")
def engine(versions: tuple[Path, Path]) -> Iterator[Engine]:
    engine = started(versions[0], level=2)
    yield engine
    engine.stop()


@pytest.fixture
def serving(engine, versions) -> Engine:
    """Return the engine, awake and serving the old version."""
    engine.load(versions[0], 1, read_manifest(versions[0]).probe)
    return engine


def fall_asleep(engine: Engine) -> None:
    engine.sleep()
    engine._call(lambda: engine._llm.collective_rpc("reset_weights"))


def test_engine_wakes_with_its_previous_weights(serving, versions):
    fall_asleep(serving)
    assert serving.is_asleep
    serving.wake()
    assert not serving.is_asleep
    assert TOLERANCE.holds(gaps(versions[0], ask(serving, PROMPTS, SHORT)))


def test_loading_new_weights_wakes_the_engine_without_using_the_old_cache(serving, versions):
    ask(serving, PROMPTS, SHORT)
    fall_asleep(serving)
    report = serving.load(versions[1], 2, read_manifest(versions[1]).probe)
    assert (serving.is_asleep, report.fingerprint) == (False, serving.fingerprint())
    assert TOLERANCE.holds(gaps(versions[1], ask(serving, PROMPTS, SHORT)))


def test_requests_in_flight_wait_during_sleep_and_then_continue(serving, versions):
    talk = Talk(serving, PROMPTS, LONG)
    talk.until(talk.begun)
    fall_asleep(serving)
    late = Talk(serving, PROMPTS[:1], SHORT, "late")
    assert serving.in_flight() == len(PROMPTS) + 1
    serving.load(versions[1], 2, read_manifest(versions[1]).probe)
    talk.replies |= late.replies
    replies = talk.finish()
    assert [len(reply.token_ids) for reply in replies] == [LONG.max_tokens] * 4 + [6]
    assert TOLERANCE.holds(gaps(versions[0], replies, version=1))
    assert TOLERANCE.holds(gaps(versions[1], replies, version=2))


def test_requests_waiting_in_a_sleeping_engine_can_be_aborted(serving):
    talk = Talk(serving, PROMPTS, LONG)
    talk.until(talk.begun)
    fall_asleep(serving)
    serving.abort(list(talk.replies))
    assert {reply.stop_reason for reply in talk.finish()} == {"abort"}
    serving.wake()
    assert serving.in_flight() == 0


def test_engine_wakes_with_the_old_weights_when_new_ones_fail_their_probe(serving, versions):
    fall_asleep(serving)
    with pytest.raises(ParityError):
        serving.load(versions[1], 2, read_manifest(versions[0]).probe)
    assert not serving.is_asleep
    assert TOLERANCE.holds(gaps(versions[0], ask(serving, PROMPTS, SHORT)))


def test_sleeping_engine_is_healthy_and_refuses_probes(serving, versions):
    fall_asleep(serving)
    fall_asleep(serving)  # a second time changes nothing
    assert serving.health(30.0).alive
    with pytest.raises(ValueError, match="asleep"):
        serving.probe_logprobs(read_manifest(versions[0]).probe.token_ids)
    serving.wake()


def test_reply_ends_at_the_runs_longest_text(serving):
    (reply,) = ask(serving, [(5, 6, 7, 8) * 248], Sampling(max_tokens=50))
    assert (reply.stop_reason, len(reply.token_ids)) == ("length", 1000 - 4 * 248)
