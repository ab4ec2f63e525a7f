"""The contract of every engine, tested on real models with one suite."""

import math
import random
import shutil
import statistics
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from apps.policies.manifest import Probe, read_manifest
from tests.workers.engines.talking import Talk, ask, build_loud, gaps, nightly_with_vllm
from workers.engines.interface import EngineDied, ParityError, Request, Sampling

LONG = Sampling(max_tokens=100)


def prompts(count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Return prompts of 1 to 20 tokens; some are equal, as in a group."""
    draw = random.Random(seed)
    different = [
        tuple(draw.randrange(2, 20) for _ in range(draw.randint(1, 20)))
        for _ in range(max(1, count // 2))
    ]
    return [different[index % len(different)] for index in range(count)]


# -- what is said


def test_logprobs_of_many_prompts_equal_an_independent_recomputation(engines, old, tolerance):
    engine, _ = engines.serving(old)
    replies = ask(engine, prompts(300), Sampling(max_tokens=12, stop_token_ids=(1,)))
    assert tolerance.holds(gaps(old, replies))


@nightly_with_vllm
def test_logprobs_are_taken_after_temperature(engines, old, tolerance):
    engine, _ = engines.serving(old, temperature=0.7)
    replies = ask(engine, prompts(20), Sampling(max_tokens=12, temperature=0.7))
    assert tolerance.holds(gaps(old, replies, temperature=0.7))
    assert not tolerance.holds(gaps(old, replies, temperature=1.0))


@nightly_with_vllm
def test_engine_without_a_temperature_uses_each_requests_own(engines, old, tolerance):
    engine, _ = engines.serving(old, temperature=None)
    for temperature in (0.7, 1.0):
        replies = ask(engine, prompts(20), Sampling(max_tokens=12, temperature=temperature))
        assert tolerance.holds(gaps(old, replies, temperature=temperature))
    coldest = ask(engine, prompts(20), Sampling(max_tokens=12, temperature=0.01))
    assert (
        statistics.fmean(logprob for reply in coldest for logprob in reply.logprobs) > -0.5
    )  # nearly always the most likely token
    with pytest.raises(ValueError, match="temperature must be"):
        engine.submit([Request("frozen", (5, 6, 7), Sampling(max_tokens=12, temperature=0.001))])


def test_tokens_are_sampled_with_the_frequency_of_their_logprobs(engines, old):
    engine, _ = engines.serving(old)
    replies = ask(engine, [(5, 6, 7)] * 2000, Sampling(max_tokens=1))
    logprobs = {reply.token_ids[0]: reply.logprobs[0] for reply in replies}
    for token, logprob in logprobs.items():
        share = sum(reply.token_ids[0] == token for reply in replies) / len(replies)
        expected = math.exp(logprob)
        assert abs(share - expected) < 5 * (expected * (1 - expected) / len(replies)) ** 0.5 + 1e-3


def test_reply_ends_at_its_stop_token_or_maximum_length(engines, old):
    engine, _ = engines.serving(old)
    replies = ask(engine, prompts(100), Sampling(max_tokens=9, stop_token_ids=(1, 7)))
    assert {reply.stop_reason for reply in replies} == {"stop", "length"}
    for reply in replies:
        stops = [index for index, token in enumerate(reply.token_ids) if token in (1, 7)]
        assert stops == ([len(reply.token_ids) - 1] if reply.stop_reason == "stop" else [])
        assert reply.stop_reason == "stop" or len(reply.token_ids) == 9


def test_equal_prompts_get_different_replies(engines, old):
    engine, _ = engines.serving(old)
    replies = ask(engine, [(5, 6, 7)] * 8, Sampling(max_tokens=20))
    assert len({tuple(reply.token_ids) for reply in replies}) == 8


def test_seed_gives_the_same_reply_alone_and_in_a_batch(engines, old):
    engine, _ = engines.serving(old)
    (alone,) = ask(engine, [(5, 6, 7)], Sampling(max_tokens=20, seed=11))
    crowd = Talk(engine, prompts(30), LONG, "crowd")
    engine.submit([Request("seeded", (5, 6, 7), Sampling(max_tokens=20, seed=11))])
    crowd.replies["seeded"] = replace(
        alone, token_ids=[], logprobs=[], versions=[], stop_reason=None
    )
    crowd.finish()
    assert crowd.replies["seeded"].token_ids == alone.token_ids


@nightly_with_vllm
def test_two_engines_give_different_replies_unless_the_request_has_a_seed(engines, fresh, old):
    engine, _ = engines.serving(old)
    other = fresh(seed=None)
    other.start(old, 1, read_manifest(old).probe)
    ten = Sampling(max_tokens=20)
    said = [tuple(r.token_ids) for one in (engine, other) for r in ask(one, [(5, 6, 7)] * 10, ten)]
    assert len(set(said)) == 20
    seeded = replace(ten, seed=5)
    (first,), (second,) = (ask(one, [(5, 6, 7)], seeded) for one in (engine, other))
    assert first.token_ids == second.token_ids


def test_continuation_with_the_same_seed_does_not_reuse_random_numbers(engines, old):
    engine, _ = engines.serving(old)
    seeded = Sampling(max_tokens=20, seed=5)
    flat = [
        (7, 7),
        (7, 7, 7),
    ]  # nearly equal prompts: the same random numbers would give nearly the same reply
    replies = [tuple(reply.token_ids) for reply in ask(engine, flat, seeded)]
    assert replies[0] != replies[1]


def test_continuation_matches_the_uninterrupted_reply(engines, old):
    cold = 0.01  # practically greedy, except where two tokens are about equally likely
    engine, _ = engines.serving(old, temperature=cold)
    replies = ask(engine, prompts(80), Sampling(max_tokens=40, temperature=cold))
    sure = [reply for reply in replies if min(reply.logprobs) > -1e-5]
    assert sure
    halves = [(*reply.prompt_ids, *reply.token_ids[:15]) for reply in sure]
    rest = ask(engine, halves, Sampling(max_tokens=25, temperature=cold))
    assert [reply.token_ids for reply in rest] == [reply.token_ids[15:] for reply in sure]


# -- requests come and go


def test_requests_are_admitted_while_others_run(engines, old, tolerance):
    engine, _ = engines.serving(old)
    first = Talk(engine, prompts(64), LONG, "first")
    first.until(first.begun)
    late = Talk(engine, prompts(16, seed=1), Sampling(max_tokens=4), "late")
    both = Talk(engine, [], LONG)
    both.replies = {**first.replies, **late.replies}
    both.until(late.ended)
    assert not first.ended()
    assert tolerance.holds(gaps(old, both.finish()))


def test_abort_returns_the_tokens_so_far(engines, old, tolerance):
    engine, _ = engines.serving(old)
    talk = Talk(engine, prompts(64), LONG)
    talk.until(talk.begun)
    engine.abort(["r3", "r40", "unknown"])
    replies = talk.finish()
    reasons = [reply.stop_reason for reply in replies]
    assert [index for index, reason in enumerate(reasons) if reason == "abort"] == [3, 40]
    assert 0 < len(replies[3].token_ids) < LONG.max_tokens
    assert tolerance.holds(gaps(old, replies))


def test_queued_requests_can_be_aborted(engines, old):
    engine, _ = engines.serving(old)
    talk = Talk(engine, prompts(400), LONG)
    engine.abort(list(talk.replies))
    assert {reply.stop_reason for reply in talk.finish()} == {"abort"}


def test_in_flight_counts_unfinished_requests(engines, old):
    engine, _ = engines.serving(old)
    talk = Talk(engine, prompts(100), LONG)  # so many that none ends before the check
    assert engine.in_flight() == 100
    talk.finish()
    assert engine.in_flight() == 0


def test_request_id_that_is_in_flight_is_refused(engines, old):
    engine, _ = engines.serving(old)
    talk = Talk(engine, prompts(400), LONG)
    with pytest.raises(ValueError):
        engine.submit([Request("r399", (5,), LONG)])  # it is queued, so it has not ended
    engine.abort(list(talk.replies))
    talk.finish()


def test_a_prompt_longer_than_the_context_ends_with_an_error(engines, old):
    engine, _ = engines.serving(old)
    (reply,) = ask(engine, [(5,) * 200], Sampling(max_tokens=4))
    assert (reply.stop_reason, reply.token_ids) == ("error", [])


def test_reply_ends_at_the_end_of_the_context(engines, old):
    engine, _ = engines.serving(old)
    (reply,) = ask(engine, [(5, 6, 7, 8) * 30], Sampling(max_tokens=50))
    assert (reply.stop_reason, len(reply.token_ids)) == ("length", 8)


def test_drain_returns_nothing_after_its_timeout(engines, old):
    engine, _ = engines.serving(old)
    assert engine.drain(0.01) == []


# -- weights


def test_new_weights_take_over_in_the_middle_of_replies(engines, old, new, tolerance):
    engine, version = engines.serving(old)
    talk = Talk(engine, prompts(64), LONG)
    talk.until(talk.begun)
    engine.load(new, version + 1, read_manifest(new).probe)
    replies = talk.finish()
    assert all(reply.stop_reason == "length" for reply in replies)
    assert tolerance.holds(gaps(old, replies, version=version))
    assert tolerance.holds(gaps(new, replies, version=version + 1))
    assert not tolerance.holds(gaps(old, replies, version=version + 1))


def test_load_reports_version_fingerprint_and_probe_gap(engines, old, new):
    engine, version = engines.serving(old)
    manifest = read_manifest(new)
    report = engine.load(new, version + 1, manifest.probe)
    assert (report.version, report.fingerprint) == (version + 1, manifest.fingerprint)
    assert engine.fingerprint() == manifest.fingerprint
    assert 0 <= report.probe_gap < 0.02
    assert report.milliseconds > 0


@nightly_with_vllm
@pytest.mark.parametrize("tied", [True, False])
def test_output_head_uses_new_weights_after_a_load(fresh, tmp_path: Path, tied: bool, tolerance):
    for seed, name in enumerate(("first", "second")):
        build_loud(tmp_path / name, seed=seed, tied=tied)
    engine = fresh()
    engine.start(tmp_path / "first", 1, read_manifest(tmp_path / "first").probe)
    engine.load(tmp_path / "second", 2, read_manifest(tmp_path / "second").probe)
    assert tolerance.holds(
        gaps(tmp_path / "second", ask(engine, prompts(10), Sampling(max_tokens=10)))
    )


def test_probe_logprobs_come_from_the_live_weights(engines, new):
    engine, _ = engines.serving(new)
    probe = read_manifest(new).probe
    assert engine.probe_logprobs(probe.token_ids) == pytest.approx(probe.logprobs, abs=0.05)


def _wrong(probe: Probe) -> Probe:
    return replace(probe, logprobs=tuple(logprob - 0.5 for logprob in probe.logprobs))


def test_weights_that_fail_their_probe_are_refused_and_the_old_ones_stay_in_use(
    engines, old, new, tolerance
):
    engine, version = engines.serving(old)
    talk = Talk(engine, prompts(64), LONG)
    talk.until(talk.begun)
    with pytest.raises(ParityError) as refusal:
        engine.load(new, version + 1, _wrong(read_manifest(new).probe))
    assert refusal.value.gap == pytest.approx(0.5, abs=0.05)
    replies = talk.finish()
    assert {said_by for reply in replies for said_by in reply.versions} == {version}
    assert tolerance.holds(gaps(old, replies))
    assert engine.fingerprint() == read_manifest(old).fingerprint


def test_unreadable_weights_are_refused_and_the_old_ones_stay_in_use(
    engines, old, new, tmp_path: Path, tolerance
):
    engine, version = engines.serving(old)
    broken = tmp_path / "broken"
    shutil.copytree(new, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(Exception) as refusal:
        engine.load(broken, version + 1, read_manifest(new).probe)
    assert not isinstance(refusal.value, EngineDied)
    assert tolerance.holds(gaps(old, ask(engine, prompts(10), Sampling(max_tokens=10))))


@nightly_with_vllm
def test_engine_does_not_start_with_weights_that_fail_their_probe(fresh, old):
    engine = fresh()
    with pytest.raises(ParityError):
        engine.start(old, 1, _wrong(read_manifest(old).probe))
    with pytest.raises(EngineDied):
        engine.submit([Request("r", (5,), LONG)])


# -- life


def test_running_engine_reports_healthy(engines, old):
    engine, version = engines.serving(old)
    health = engine.health(10.0)
    assert (health.alive, health.version, health.in_flight) == (True, version, 0)


def test_engine_that_was_not_started_refuses_requests(fresh):
    engine = fresh()
    engine.abort(["r"])
    assert not engine.health(1.0).alive
    with pytest.raises(EngineDied):
        engine.submit([Request("r", (5,), LONG)])


@nightly_with_vllm
def test_stopped_engine_leaves_no_thread_and_refuses_requests(fresh, old):
    before = set(threading.enumerate())
    engine = fresh()
    engine.start(old, 1, read_manifest(old).probe)
    Talk(engine, prompts(5), LONG)
    engine.stop()
    engine.stop()
    assert not {thread for thread in set(threading.enumerate()) - before if thread.is_alive()}
    engine.abort(["r0"])
    with pytest.raises(EngineDied):
        engine.submit([Request("r", (5,), LONG)])
