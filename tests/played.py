"""Example episodes for pages: an environment of the project, and a run's rollouts as if they had
been played in it.
"""

from datetime import datetime, timedelta

from django.utils import timezone

from apps.accounts.models import User
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.rollouts.models import Rollout
from apps.runs.models import Run

STATE = Episode.State
GRID = "@ . . #\n. # . .\n. . # .\n# . . G"
TURNS = 3
ENVIRONMENT_S = 0.04
POLICY_S = 0.25


def play(run: Run, name: str = "maze", kind: str = Environment.Kind.PUSH) -> Environment:
    """Create six finished episodes, one with a late reward and one without a reward; one failed,
    one abandoned, and an open one in each state.
    """
    place = Environment.objects.create(
        project=run.project,
        name=name,
        kind=kind,
        title="A maze",
        description="Find the **way out**, one word a move.",
        reward_low=-0.01,
        reward_high=1.0,
        turn_limit=24,
        created_by=User.objects.filter(username="alice").first(),
    )
    finished = run.rollouts.filter(state=Rollout.State.FINISHED).order_by("pk")[:6]
    for rollout, earned in zip(
        finished,
        ([-0.01, -0.01, 1.0], [-0.01, 0.5, 0.25], [0.0, 0.0, 0.0], [-0.01, None, 1.0]),
        strict=False,
    ):
        _played(place, rollout, earned)
    late, silent = list(finished)[4:]
    _played(place, late, [-0.01, None, None], late=0.5)
    _played(place, silent, [None, None, None], reason="the environment gave no reward")
    _ended_early(place, run, STATE.FAILED, "its answer took longer than 30 s")
    _ended_early(place, run, STATE.ABANDONED, "another explorer makes the next attempt")
    sampling = run.rollouts.filter(state=Rollout.State.SAMPLING).order_by("pk")
    for rollout, state in zip(sampling, Episode.OPEN, strict=False):
        _open(place, rollout, state)
    return place


def name_in(run: Run, name: str) -> None:
    """Configure the run to play in this environment; such a run requests no ratings."""
    run.config["environment"], run.config["people"]["per_group"] = {"name": name}, 0
    run.save(update_fields=["config"])


def _episode(place: Environment, run: Run, state: str, **more: object) -> Episode:
    begun = timezone.now() - timedelta(minutes=5)
    given = {
        "client": User.objects.filter(username="alice").first(),
        "begun_at": begun,
        "heard_at": begun,
        **more,
    }
    if state in Episode.CLOSED:
        given["closed_at"] = begun + timedelta(minutes=1)
    return Episode.objects.create(
        environment=place, run=run, seed=7, turn_limit=place.turn_limit, state=state, **given
    )


def _played(
    place: Environment, rollout: Rollout, earned: list, late: float | None = None, reason: str = ""
) -> Episode:
    """Create an episode over the rollout's tokens: per turn two action tokens and one of the
    environment, with the rewards `earned`.
    """
    episode = _episode(
        place,
        rollout.run,
        STATE.DONE,
        rollout=rollout,
        fence=rollout.group.fence,
        reason="the environment is done",
        turns=len(earned) + 1,
    )
    for number, value in enumerate(earned):
        turn = _turn(
            episode,
            number,
            episode.begun_at,
            first=3 * number,
            tokens=2,
            reward=value,
            reason="" if value else reason,
        )
        if number == len(earned) - 1 and late is not None:
            EpisodeTurn.objects.filter(pk=turn.pk).update(late_reward=late, reason="")
    _turn(
        episode,
        len(earned),
        episode.begun_at,
        acts=False,
        done=True,
        observation=[{"role": "tool", "content": "you are there"}],
    )
    return episode


def _ended_early(place: Environment, run: Run, state: str, reason: str) -> None:
    episode = _episode(place, run, state, reason=reason, turns=1)
    _turn(episode, 0, episode.begun_at)


def _open(place: Environment, rollout: Rollout, state: str) -> None:
    if state == STATE.WAITING:
        _episode(
            place,
            rollout.run,
            state,
            rollout=rollout,
            fence=rollout.group.fence,
            client=None,
            begun_at=None,
            heard_at=None,
        )
        return
    episode = _episode(
        place, rollout.run, state, rollout=rollout, fence=rollout.group.fence, turns=1
    )
    _turn(episode, 0, episode.begun_at, acts=state == STATE.ENVIRONMENT)


def _turn(
    episode: Episode, number: int, begun: datetime, acts: bool = True, **more: object
) -> EpisodeTurn:
    asked = begun + timedelta(seconds=ENVIRONMENT_S + number * (ENVIRONMENT_S + POLICY_S))
    acted = (
        {
            "action": "down" if number % 2 else "right",
            "answered_at": asked + timedelta(seconds=POLICY_S),
        }
        if acts
        else {}
    )
    given = {"observation": GRID, "info": {"steps": number}, "requested_at": asked, **acted, **more}
    return EpisodeTurn.objects.create(episode=episode, number=number, **given)
