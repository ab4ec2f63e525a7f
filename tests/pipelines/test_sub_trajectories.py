"""Beginnings of episodes become expert rows: up to the action with the highest total reward, with
a reference to the episode.
"""

import pytest
from django.urls import reverse

from apps.buffer.ledger import derived_rollouts_match_their_parents
from apps.buffer.models import Experience, Offspring
from apps.dashboard.reconciliation.groups import groups_match_their_counters
from apps.dashboard.reconciliation.lessons import expert_rollouts_match_their_demonstrations
from apps.environments.closing import Ending, settle_episodes
from apps.environments.environment_lookup import find_or_register as environment
from apps.environments.episode_opening import open_episodes
from apps.environments.judging import send_on
from apps.environments.ledger import (
    episodes_are_rewarded_once,
    episodes_end_with_their_rollouts,
)
from apps.environments.models import Episode
from apps.environments.playing import Action as Acted
from apps.environments.playing import observe, record_actions
from apps.pipelines import offspring
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.episode_actions import load_actions
from apps.pipelines.operators import find_operator as operator
from apps.pipelines.operators.contract import Action, Sample
from apps.pipelines.refining import load_cases, refine
from apps.rewards.scoring import record_verdicts
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.payload import Tokens
from apps.rollouts.turns import POLICY, USER, Turn

MIX = {"name": "mix", "expert": {"ratio": 1 / 3, "mu": 0.2, "source": "buffer"}}
CUT = {"operator": "sub_trajectories"}


def earned(*rewards: float | None) -> list[Action]:
    return [Action(3 * number + 2, reward) for number, reward in enumerate(rewards)]


def cut(*episodes: list[Action], **options: object) -> list[tuple[int, int]]:
    """Return (rollout, tokens) of the rows created from one group's episodes."""
    acted = dict(enumerate(episodes))
    samples = [Sample(number, 1, "x", 0.0, acted=acted) for number in acted]
    found = operator("sub_trajectories")
    said = found.call(samples, found.read_options(options))
    assert said.kept == samples
    return [(made.of.rollout, made.tokens) for made in said.made]


@pytest.mark.parametrize(
    ("rewards", "tokens"),
    [
        ((0.0, 1.0, -1.0), 5),
        ((1.0, 0.0, -1.0), 2),  # the first of equals
        ((0.5, -0.25, 0.5, -0.5), 8),
        ((0.0, 0.0, 1.0), None),  # the best beginning is the whole episode
        ((1.0, 0.0, 0.0), None),  # nothing was lost
        ((0.0, -1.0), None),
        ((-0.1, -0.1), None),
        ((0.5, None, -1.0), None),  # the loss is unknown
        ((0.5, -0.5, None), 2),
        ((), None),
    ],
)
def test_episode_is_cut_where_its_total_reward_is_highest_before_it_falls(rewards, tokens):
    assert cut(earned(*rewards)) == ([(0, tokens)] if tokens else [])


def test_episodes_with_the_highest_totals_are_cut():
    episodes = [earned(best, -1.0) for best in (0.25, 0.75, 0.5)]
    assert cut(*episodes, max_episodes=2) == [(1, 2), (2, 2)] and cut(
        *episodes, reward_threshold=0.6, max_episodes=3
    ) == [(1, 2)]


def test_masked_rollout_is_not_cut():
    found = operator("sub_trajectories")
    masked = [
        Sample(
            0, 1, "x", 0.0, silent="truncated at the maximum length", acted={0: earned(1.0, -1.0)}
        )
    ]
    assert found.call(masked, found.read_options({})).made == []


# -- rows


@pytest.fixture
def played(new_run, project):
    """Return a function that creates a group of two episodes with one action per reward, judges and
    refines it, and claims the trainer's lease of its run.
    """
    place = environment(project, "guess_number")
    place.reward_low = -1.0
    place.reward_high = 1.0
    place.save()

    def play(
        *rewards: tuple[float, ...], said: tuple[str, ...] = ("up", "up"), **changes: object
    ) -> Group:
        run = new_run(
            **{
                "environment": {"name": "guess_number"},
                "rewards": [],
                "algorithm": MIX,
                "pipeline": [CUT],
                **changes,
            }
        )
        assert run.claim_trainer("t", 60)
        [group] = Group.open(run, "explorer@test", 60, 1, run.published_version)
        rollouts = list(group.rollouts.order_by("sample_index"))
        episodes = open_episodes(place, run.settings.environment, [group], rollouts)
        outcomes = []
        for rollout, earnings, word in zip(rollouts, rewards, said, strict=True):
            outcomes.append(write(episodes[rollout.pk], earnings, word))
        Group.finish_rollouts({group.pk: group.claimed}, outcomes)
        settle_episodes([Ending(one.pk, pk, "stop", "") for pk, one in episodes.items()])
        send_on()
        record_verdicts(Group.objects.claim(Group.State.SCORING, "s", 60, 8), [])
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 8))
        return Group.objects.get(pk=group.pk)

    return play


def write(episode: Episode, earnings: tuple[float, ...], word: str) -> Outcome:
    """Write actions `word` of two tokens, with observations `no` of two tokens between them."""
    turns: list[Turn] = []
    for number in range(len(earnings)):
        observe(episode.pk, number, "no", reward=earnings[number - 1] if number else None)
        record_actions([Acted(episode.pk, number, word, 4 * number, 2)])
        turns += [
            Turn(POLICY, word, 8 * number, 4 * number, 2),
            Turn(USER, "no", 8 * number + 4, 4 * number + 2, 2),
        ]
    observe(episode.pk, len(earnings), "over", reward=earnings[-1], done=True)
    text = "\n\n".join(turn.text for turn in turns[:-1])
    ids = tuple((word + "no").encode()) * len(earnings)
    mask = (1, 1, 0, 0) * len(earnings)
    tokens = Tokens((1, 2, 3), ids[:-2], (-0.5,) * (len(ids) - 2), mask[:-2], ((0, 0),))
    return Outcome(episode.rollout_id, tokens, text, "stop", tuple(turns[:-1]))


def take_in(run) -> int:
    return offspring.admit(
        run, run.fence, [(one, offspring.tokens_of(one)) for one in offspring.not_yet_admitted(run)]
    )


def violations() -> list[str]:
    checks = (
        derived_rollouts_match_their_parents,
        groups_match_their_counters,
        expert_rollouts_match_their_demonstrations,
        episodes_end_with_their_rollouts,
        episodes_are_rewarded_once,
    )
    return [why for find in checks for why in find()]


def test_beginning_of_an_episode_becomes_an_expert_row_with_its_own_tokens(played):
    group = played((0.25, 0.5, -1.0), (0.0, 0.0, 0.5))
    [made] = Offspring.objects.all()
    parent = group.rollouts.get(sample_index=0)
    assert (made.of, made.task, made.tokens, made.operator) == (
        parent,
        group.task,
        6,
        "sub_trajectories",
    )
    assert made.reason == "the first 2 of 3 actions got 0.75 in total, all of them -0.25"
    assert take_in(group.run) == 1 and take_in(group.run) == 0
    row = Experience.objects.expert().get()
    child = row.rollout
    tokens = row.rollout.tokens
    assert (child.text, [turn["role"] for turn in child.turns]) == (
        "up\n\nno\n\nup",
        [POLICY, USER, POLICY],
    )
    assert (tokens.prompt_ids, bytes(tokens.completion_ids), tokens.action_mask) == (
        (1, 2, 3),
        b"upnoup",
        (1, 1, 0, 0, 1, 1),
    )
    assert (child.origin, child.group.draw_index, child.group.task, child.first_version) == (
        "synthetic",
        None,
        group.task,
        0,
    )
    assert (row.state, row.reward, row.kind) == ("ready", None, "expert") and violations() == []


def test_episodes_with_equal_beginnings_make_one_row(played):
    group = played((0.5, -1.0), (0.5, -1.0))
    assert Offspring.objects.get().of == group.rollouts.get(sample_index=0)
    played((0.5, -1.0), (0.5, -1.0), said=("up", "no"))
    assert Offspring.objects.count() == 3 and violations() == []


def test_earlier_attempt_at_an_episode_is_ignored(played):
    group = played((0.0, 0.5), (0.0, 0.5), pipeline=[])
    episode = Episode.objects.filter(rollout__group=group).first()
    Episode.objects.filter(pk=episode.pk).update(fence=episode.fence + 1)
    earlier = Episode.objects.create(
        environment=episode.environment,
        run=group.run,
        rollout=episode.rollout,
        fence=episode.fence,
        seed=1,
        turn_limit=3,
        state=Episode.State.FAILED,
        reason="test",
        closed_at=group.closed_at,
        begun_at=group.opened_at,
    )
    for number, reward in enumerate((1.0, -1.0)):
        earlier.seen.create(
            number=number,
            observation="no",
            first=4 * number,
            tokens=2,
            reward=reward,
            answered_at=group.closed_at,
        )
    [found] = load_actions(load_cases([group]), [])
    assert found[episode.rollout_id] == [Action(2, 0.0), Action(6, 0.5)]


def test_pages_link_parent_and_cut_rollout(played, client, alice):
    group = played((0.5, -1.0), (0.0, 0.5))
    take_in(group.run)
    client.force_login(alice)
    child = Offspring.objects.get().rollout
    parent = client.get(
        reverse("rollout", args=[group.rollouts.get(sample_index=0).pk])
    ).content.decode()
    assert "New rollout created" in parent and f"rollout {child.pk}" in parent
    page = client.get(reverse("rollout", args=[child.pk])).content.decode()
    assert "by sub_trajectories" in page and "the first 1 of 2 actions got 0.5" in page


def test_reconcile_reports_a_rollout_of_the_wrong_length(played):
    group = played((0.5, -1.0), (0.0, 0.5))
    take_in(group.run)
    child = Offspring.objects.get().rollout
    Rollout.objects.filter(pk=child.pk).update(completion_tokens=3)
    assert violations() == [
        f"{child}: does not match what should be made from rollout {Offspring.objects.get().of_id}"
    ]


@pytest.mark.parametrize("changes", [{}, {"rewards": [{"scorer": "sort"}]}])
def test_run_without_an_environment_is_refused_with_the_field(plan, project, changes):
    found = find_pipeline_problems(plan(algorithm=MIX, pipeline=[CUT], **changes), project)
    assert (
        list(found) == ["pipeline.0.operator"]
        and "the run needs an `environment`" in found["pipeline.0.operator"]
    )


def test_run_with_an_environment_is_accepted(plan, project):
    assert (
        find_pipeline_problems(
            plan(algorithm=MIX, pipeline=[CUT], environment={"name": "guess_number"}, rewards=[]),
            project,
        )
        == {}
    )
