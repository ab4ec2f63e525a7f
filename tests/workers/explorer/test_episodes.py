"""Rollouts played in environments: exact tokens between the turns, every action answered, and no
reward from a failed environment.
"""

import pytest
from django.db.models import F

from apps.buffer.models import Experience
from apps.dashboard.reconciliation import CHECKS
from apps.environments.closing import fail_episode
from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import assign_episode
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.playing import Action, observe, record_actions
from apps.feedback.interventions import typed_spans
from apps.pipelines.refining import refine
from apps.rewards.scoring import open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import list_turns
from apps.streaming import worker_notifications
from apps.tasksets.models import Task
from apps.tasksets.shuffled_draws import draw_position
from tests.workers.explorer.conftest import another
from workers.explorer.episodes import LOST
from workers.explorer.loop import RUNG_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)
ROOM = {"max_tokens": 100}


@pytest.fixture
def library_run(new_run, tiny_policy):
    Task.objects.update(meta={"seed": 7, "options": {"low": 1, "high": 9}})
    return new_run(**SHAPE, environment={"name": "guess_number", "max_turns": 3}, rewards=[])


SHAPE = {"sampling": ROOM, "engine": "transformers", "group_size": 4, "max_staleness": 0}


@pytest.fixture
def outside(project) -> Environment:
    return Environment.objects.create(
        project=project, name="outside", kind="push", turn_limit=3, reward_low=-1
    )


@pytest.fixture
def push_run(new_run, tiny_policy, outside):
    return new_run(**SHAPE, environment={"name": "outside"}, rewards=[])


def played(stage, run, groups: int = 2) -> list[Rollout]:
    """Wait until the rollouts of `groups` groups are written, and return them."""

    def look() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=run, state=Group.State.SCORING).count() >= groups

    stage.eventually(look, 300)
    return list(Rollout.objects.filter(run=run).order_by("pk"))


def clean() -> list[str]:
    return [f"{check.name}: {found}" for check in CHECKS for found in check.find()]


def test_library_environment_is_played_to_the_end_and_answers_every_action(library_run, stage):
    rollouts = played(stage, library_run)
    assert {rollout.stop_reason for rollout in rollouts} <= {
        "the environment is done",
        "turn limit",
        "length",
    }
    for rollout in rollouts:
        episode = rollout.episodes.get()
        acted = list(episode.seen.filter(answered_at__isnull=False))
        said = [turn for turn in list_turns(rollout) if turn.role == "assistant"]
        assert [turn.action for turn in acted] == [turn.text for turn in said]
        assert [(turn.first, turn.tokens) for turn in acted] == [
            (turn.first_token, turn.tokens) for turn in said
        ]
        assert all(turn.reward in (0.0, 1.0) for turn in acted) and len(acted) <= 3
        word = rollout.rewards.get()
        assert (word.source, word.scorer, word.value) == (
            "environment",
            "guess_number",
            sum(turn.reward for turn in acted),
        )
        assert episode.state == Episode.State.DONE
    assert clean() == []


def test_environments_reward_is_the_reward_of_the_experience(library_run, stage):
    played(stage, library_run)
    claimed = Group.objects.claim(Group.State.SCORING, "scorer@test", 60, 8)
    assert open_questions(claimed) == []
    record_verdicts(claimed, [])
    refine(Group.objects.claim(Group.State.JUDGED, "refiner@test", 60, 8))
    lessons = list(Experience.objects.select_related("rollout"))
    assert lessons and all(
        lesson.reward == lesson.rollout.rewards.get().value for lesson in lessons
    )
    assert clean() == []


def test_person_cannot_act_before_the_environments_answer(push_run, stage, outside, alice):
    stage.explorer.serve()
    in_flight = next(iter(stage.session.rollouts.values()))
    for kind, text in (("edit", "1"), ("seat", "1"), ("hold", "")):
        act = stage.ask(alice, in_flight, kind, text)
        assert (act.state, act.reason) == (
            "refused",
            "wait for the environment's answer",
        )
    assert stage.ask(alice, in_flight, "stop").reason == "the reply has no text yet"


def test_environment_answers_the_turn_that_a_person_typed(library_run, stage, alice):
    in_flight = stage.streaming(tokens=2)
    number = stage.session.episodes.played[in_flight.episode_id].observations_read - 1
    request = in_flight.request_id
    first = in_flight.turn.first
    text = another(in_flight.turn.text[0]) + "5"
    assert stage.ask(alice, in_flight, "seat", text).state == "done"
    assert in_flight.request_id != request  # the policy's request is not awaited
    rollout = stage.ended(in_flight.rollout_id)
    turn = EpisodeTurn.objects.get(episode=in_flight.episode_id, number=number)
    typed = slice(first, first + turn.tokens)
    assert turn.action == text and turn.first == first and turn.reward is not None
    assert stage.session.chat_tokenizer.text(list(rollout.tokens.completion_ids[typed])) == text
    assert set(rollout.tokens.action_mask[typed]) == {0} and set(
        rollout.tokens.logprobs[typed]
    ) == {0.0}
    assert [(span.first_token, span.intervention.by) for span in typed_spans(rollout)] == [
        (first, alice)
    ]
    assert clean() == []


def test_next_attempt_starts_the_episodes_again(library_run, stage):
    stage.explorer.serve()
    before = set(Episode.objects.values_list("pk", flat=True))
    Group.objects.update(lease_until=None, lease_owner="", fence=F("fence") + 1)
    stage.session.abandon({claim.pk for claim in stage.session.claims})
    rollouts = played(stage, library_run)
    assert set(Episode.objects.filter(pk__in=before).values_list("state", flat=True)) == {
        "abandoned"
    }
    assert all(
        rollout.rewards.count() == rollout.episodes.filter(state="done").count() == 1
        for rollout in rollouts
    )
    assert clean() == []


def test_environments_tokens_are_masked_and_match_the_template(library_run, stage):
    rollouts = played(stage, library_run)
    several = [rollout for rollout in rollouts if len(list_turns(rollout)) > 1]
    assert several
    for rollout in several:
        tokens = rollout.tokens
        chat_tokenizer = stage.session.chat_tokenizer
        for turn in list_turns(rollout):
            span = slice(turn.first_token, turn.first_token + turn.tokens)
            assert set(tokens.action_mask[span]) == {int(turn.role == "assistant")}
            if turn.role == "user":
                assert tokens.completion_ids[span] == chat_tokenizer.prompt_ids(
                    [{"role": "user", "content": turn.text}]
                )
                assert set(tokens.logprobs[span]) == {0.0}
            else:
                assert all(value < 0 for value in tokens.logprobs[span])
        assert sum(turn.tokens for turn in list_turns(rollout)) == len(tokens.completion_ids)
    longest = max(several, key=lambda rollout: rollout.completion_tokens).tokens
    alone = stage.session.engine.probe_logprobs((*longest.prompt_ids, *longest.completion_ids))[
        len(longest.prompt_ids) - 1 :
    ]
    own = [
        (kept, now)
        for kept, now, mask in zip(longest.logprobs, alone, longest.action_mask, strict=True)
        if mask
    ]
    assert [kept for kept, _ in own] == pytest.approx([now for _, now in own], abs=1e-3)


def test_episodes_of_a_group_share_seed_and_options(push_run, stage, outside, alice):
    stage.explorer.serve()
    group = push_run.groups.first()
    assert (
        len(
            {
                (episode.seed, str(episode.options))
                for episode in Episode.objects.filter(rollout__group=group)
            }
        )
        == 1
    )


def test_push_environment_is_awaited_and_its_first_observation_completes_the_prompt(
    push_run, stage, outside, alice
):
    stage.explorer.serve()
    assert set(Episode.objects.values_list("state", flat=True)) == {"waiting"}
    assert not stage.session.engine.in_flight() and len(stage.session.rollouts) == 8
    episode = assign_episode(outside, alice, key="first")
    observe(episode.pk, 0, "1+1")

    def acted():
        stage.explorer.serve()
        return episode.seen.filter(answered_at__isnull=False).first()

    stage.eventually(acted, 300)
    observe(episode.pk, 1, "good", reward=-0.5, done=True)
    rollout = stage.ended(episode.rollout_id)
    task = rollout.group.task.prompt[-1]["content"]
    asked = stage.session.chat_tokenizer.prompt_ids([{"role": "user", "content": f"{task}\n\n1+1"}])
    assert rollout.tokens.prompt_ids == asked and len(list_turns(rollout)) == 1
    assert (rollout.stop_reason, rollout.rewards.get().value) == ("the environment is done", -0.5)


def test_beside_a_busy_engine_observations_are_read_after_a_notification_or_an_interval(
    push_run, stage, outside, alice, monkeypatch
):
    monkeypatch.setattr("workers.explorer.episodes.READ_S", 60.0)
    stage.explorer.serve()
    episodes = stage.session.episodes
    episode = assign_episode(outside, alice)
    episodes.news()
    observe(episode.pk, 0, "1+1")
    assert episodes.news(is_beside=True) == []
    (read,) = episodes.news(is_beside=True, is_notified=True)
    assert read[1].episode_id == episode.pk
    other = assign_episode(outside, alice)
    observe(other.pk, 0, "2+2")
    monkeypatch.setattr("workers.explorer.episodes.READ_S", 0.0)
    assert [news.episode_id for _, news in episodes.news(is_beside=True)] == [other.pk]


def test_explorer_with_callers_notices_a_notification_before_it_looks_for_work(
    push_run, stage, outside, alice
):
    stage.explorer.serve()
    while worker_notifications.has_arrived("explore"):
        pass  # those of the setup
    now = stage.explorer.looked_at
    assert not stage.explorer._is_notified(now)
    observe(assign_episode(outside, alice).pk, 0, "1+1")
    assert stage.explorer._is_notified(now) and stage.explorer.has_unread_notification
    assert not stage.explorer._is_to_look(now)
    assert stage.explorer._is_to_look(now + RUNG_SECONDS + 0.01)


def test_failed_environment_gives_no_reward_and_the_reason(push_run, stage, outside, alice):
    stage.explorer.serve()
    episode = assign_episode(outside, alice)
    fail_episode(episode.pk, "it crashed")
    rollout = stage.ended(episode.rollout_id)
    word = rollout.rewards.get()
    assert (rollout.state, rollout.stop_reason) == ("failed", "environment failed: it crashed")
    assert (word.value, word.reason) == (None, "environment failed: it crashed")
    assert clean() == []


def test_action_on_an_observation_lost_in_a_database_crash_fails_its_episode(
    push_run, stage, outside, alice, monkeypatch
):
    stage.explorer.serve()
    episode = assign_episode(outside, alice)
    observe(episode.pk, 0, "1+1")

    def record_after_a_crash(actions: list[Action]) -> list[int]:
        if actions:
            EpisodeTurn.objects.filter(episode=episode, answered_at=None).delete()
            Episode.objects.filter(pk=episode.pk, turns=1).update(turns=0, state="environment")
        return record_actions(actions)

    monkeypatch.setattr("workers.explorer.episodes.record_actions", record_after_a_crash)
    rollout = stage.ended(episode.rollout_id)
    word = rollout.rewards.get()
    assert (rollout.state, word.value) == ("failed", None)
    assert word.reason == f"environment failed: {LOST}"
    assert clean() == []


def test_environment_that_is_silent_for_too_long_fails(
    push_run, stage, outside, alice, monkeypatch
):
    monkeypatch.setattr("workers.explorer.episodes.OVERDUE_LOOK_S", 0.0)
    Environment.objects.update(turn_s=0.05)
    stage.explorer.serve()
    episode = assign_episode(outside, alice)
    rollout = stage.ended(episode.rollout_id)
    assert (
        rollout.rewards.get().value is None
        and "took longer than 0.05 s" in rollout.rewards.get().reason
    )


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        ("hang", "took longer than 1 s"),
        ("end", "the process exited with 3"),
        ("raise", "RuntimeError: out of luck"),
        ("lie", "reward: must be a number from 0 to 1, or null"),
    ],
)
def test_broken_environment_class_fails_only_its_own_episodes(
    library_run, stage, project, monkeypatch, breaks, reason
):
    monkeypatch.setattr(
        "workers.explorer.local_player.CHILD", "tests.workers.explorer.broken_child"
    )
    find_or_register(project, "guess_number")
    if breaks == "hang":
        Environment.objects.update(turn_s=1.0)
    first = library_run.taskset.tasks.get(
        index=draw_position(0, library_run.taskset.size, library_run.settings.seed)
    )
    Task.objects.filter(pk=first.pk).update(meta={"seed": 7, "options": {"breaks": breaks}})
    rollouts = played(stage, library_run)
    for rollout in rollouts:
        word = rollout.rewards.get()
        assert (word.value is None) == (rollout.group.task_id == first.pk)
        assert word.reason == (
            f"environment failed: {reason}" if rollout.group.task_id == first.pk else ""
        )
    assert clean() == []
