"""Feedback on answers, from the agent and its users: thumbs, scores and corrections.

Every item is stored at once, as a further version if the person repeats it, and each person's
newest version counts. The reward of an action is the mean of these. Feedback that comes after the
rollout is judged is stored as late.
"""

import math
from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.environments.agents.conversation import recorded
from apps.environments.agents.keys import Caller
from apps.environments.agents.refusals import Refused, of_play
from apps.environments.closing import end_episode
from apps.environments.errors import CannotPlay
from apps.environments.judging import is_judged, judge_complete_episodes
from apps.environments.models import Environment, Episode, EpisodeTurn, Feedback
from apps.environments.observations import checked_reward
from apps.environments.playing import locked
from apps.feedback.models.lessons import Demonstration, Preference

JUDGED = "the reply got feedback"


@dataclass(frozen=True)
class AnswerFeedback:
    """One person's feedback on an answer: a thumb, a score, a correction.

    `person` is the user named by the agent. `is_final` means that no more feedback comes for the
    episode.
    """

    person: str = ""
    thumb: str | None = None
    score: object = None
    correction: str = ""
    is_final: bool = False

    def value(self, environment: Environment) -> float | None:
        """Return the feedback as a reward: a thumb is the highest or the lowest possible one.

        Raises CannotPlay (bad_reward).
        """
        if self.thumb is not None:
            return environment.reward_high if self.thumb == "up" else environment.reward_low
        return checked_reward(environment, self.score)


@transaction.atomic
def hear(caller: Caller, episode_id: int, number: int | None, word: AnswerFeedback) -> Feedback:
    """Store feedback on the action of this turn (None: of the last one).

    Repeating the same feedback keeps the version. An episode of one call ends with its first
    reward. Raises Refused (404, 409, 422).
    """
    episode = _lock_own_episode(caller, episode_id)
    turn = _acted(episode, number)
    try:
        feedback = _store_feedback(episode, turn, caller.user, word)
    except CannotPlay as why:
        raise of_play(why) from why
    if feedback.value is not None and not episode.key and episode.is_open:
        episode = end_episode(episode.pk, JUDGED)
    judge_complete_episodes([episode], [episode.pk] if word.is_final else [])
    return feedback


def _lock_own_episode(caller: Caller, episode_id: int) -> Episode:
    episodes = Episode.objects.filter(pk=episode_id, run=caller.run, environment=caller.environment)
    if not episodes.exists():
        raise Refused(
            404,
            "completion_not_found",
            "There is no such completion, or it belongs to another run.",
            "completion_id",
        )
    return locked(episode_id)


def _acted(episode: Episode, number: int | None) -> EpisodeTurn:
    answered_turns = episode.seen.filter(answered_at__isnull=False).order_by("-number")
    turn = (answered_turns if number is None else answered_turns.filter(number=number)).first()
    if turn is None:
        raise Refused(
            409,
            "not_answered",
            ("The policy has not replied there yet, so there is nothing to rate."),
        )
    return turn


def _store_feedback(
    episode: Episode, turn: EpisodeTurn, user: User, word: AnswerFeedback
) -> Feedback:
    value = word.value(episode.environment)
    last = turn.feedback.filter(by=user, person=word.person).order_by("-version").first()
    fields = {"value": value, "correction": word.correction, "is_thumb": word.thumb is not None}
    if last is not None and all(
        getattr(last, name) == new_value for name, new_value in fields.items()
    ):
        return last
    late = is_judged(episode)
    feedback = Feedback.objects.create(
        turn=turn,
        by=user,
        person=word.person,
        version=last.version + 1 if last else 1,
        is_late=late,
        **fields,
    )
    _reward(turn, late)
    # Lessons are chats, so a correction of a bare text is no lesson.
    if word.correction and not turn.wishes.get("raw"):
        _store_correction(episode, turn, user, word.correction)
    return feedback


def _reward(turn: EpisodeTurn, late: bool) -> None:
    """Set the turn's reward to the mean of each person's newest value."""
    newest = (
        turn.feedback.filter(value__isnull=False)
        .order_by("by", "person", "-version")
        .distinct("by", "person")
    )
    values = [word.value for word in newest if word.value is not None]
    if values:
        reward_fields = {
            "late_reward" if late else "reward": math.fsum(values) / len(values),
            "rewarded_at": Now(),
        }
        EpisodeTurn.objects.filter(pk=turn.pk).update(**reward_fields)


def _store_correction(episode: Episode, turn: EpisodeTurn, user: User, correction: str) -> None:
    """Store a correction as a demonstration, and as preferred to the answer if they differ.

    A repeated correction is stored once.
    """
    before = recorded(list(episode.seen.filter(number__lt=turn.number).order_by("number")))
    last_messages = recorded(
        [EpisodeTurn(number=turn.number, episode_id=episode.pk, observation=turn.observation)]
    )
    prompt = [
        {"role": message.role, "content": message.content} for message in (*before, *last_messages)
    ]
    run = episode.required_run
    common = {
        "project_id": run.project_id,
        "task_id": episode.required_rollout.group.task_id,
        "run": run,
        "prompt": prompt,
        "author": user,
        "source": f"feedback on turn {turn.number} of episode {episode.pk}",
    }
    demonstration = Demonstration(**common, answer=correction).keyed()
    Demonstration.objects.bulk_create([demonstration], ignore_conflicts=True)
    if turn.action.strip() and turn.action != correction:
        preferred = Preference(**common, chosen=correction, rejected=turn.action).keyed()
        Preference.objects.bulk_create([preferred], ignore_conflicts=True)
