"""What is said of an answer: thumbs, scores and corrections, of the agent itself and of its own users.

Every word is kept at once, and each person's newest counts: said again, it is a further version. What an action earned is the mean
of what its people think now. Once the rollout is judged, what comes is kept as late.
"""

import math
from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.environments.agents.conversation import recorded
from apps.environments.agents.keys import Caller
from apps.environments.agents.refusals import Refused, of_play
from apps.environments.closing import end
from apps.environments.errors import CannotPlay
from apps.environments.judging import heard, is_judged
from apps.environments.models import Environment, Episode, EpisodeTurn, Feedback
from apps.environments.observations import checked_reward
from apps.environments.playing import locked
from apps.feedback.models.lessons import Demonstration, Preference

JUDGED = "its answer was judged"


@dataclass(frozen=True)
class Word:
    """What one person thinks of an answer: a thumb, a score, a correction. `person`: whom of its users the agent names.

    `is_final`: nobody will say more about the episode.
    """

    person: str = ""
    thumb: str | None = None
    score: object = None
    correction: str = ""
    is_final: bool = False

    def value(self, environment: Environment) -> float | None:
        """As a reward: a thumb is the best or the least there is. Raises CannotPlay (bad_reward)."""
        if self.thumb is not None:
            return environment.reward_high if self.thumb == "up" else environment.reward_low
        return checked_reward(environment, self.score)


@transaction.atomic
def hear(caller: Caller, episode_id: int, number: int | None, word: Word) -> Feedback:
    """Keep what is said of the action of this turn (None: of the last one). Said again alike it is the same version.

    An episode of one call is over with the first reward. Raises Refused (404, 409, 422).
    """
    episode = _locked(caller, episode_id)
    turn = _acted(episode, number)
    try:
        said = _kept(episode, turn, caller.user, word)
    except CannotPlay as why:
        raise of_play(why) from why
    if said.value is not None and not episode.key and episode.is_open:
        episode = end(episode.pk, JUDGED)
    heard([episode], [episode.pk] if word.is_final else [])
    return said


def _locked(caller: Caller, episode_id: int) -> Episode:
    mine = Episode.objects.filter(pk=episode_id, run=caller.run, environment=caller.environment)
    if not mine.exists():
        raise Refused(404, "completion_not_found", "There is no such completion, or it is not of this key's run.", "completion_id")
    return locked(episode_id)


def _acted(episode: Episode, number: int | None) -> EpisodeTurn:
    acted = episode.seen.filter(answered_at__isnull=False).order_by("-number")
    turn = (acted if number is None else acted.filter(number=number)).first()
    if turn is None:
        raise Refused(409, "not_answered", "The policy has not answered there yet: there is nothing to judge.")
    return turn


def _kept(episode: Episode, turn: EpisodeTurn, user: User, word: Word) -> Feedback:
    value = word.value(episode.environment)
    last = turn.feedback.filter(by=user, person=word.person).order_by("-version").first()
    alike = {"value": value, "correction": word.correction, "is_thumb": word.thumb is not None}
    if last is not None and all(getattr(last, name) == same for name, same in alike.items()):
        return last
    late = is_judged(episode)
    said = Feedback.objects.create(
        turn=turn, by=user, person=word.person, version=last.version + 1 if last else 1, is_late=late, **alike
    )
    _reward(turn, late)
    if word.correction and not turn.wishes.get("raw"):  # lessons are chats: of a bare text they would teach something else
        _teach(episode, turn, user, word.correction)
    return said


def _reward(turn: EpisodeTurn, late: bool) -> None:
    """The mean of each person's newest value."""
    newest = turn.feedback.filter(value__isnull=False).order_by("by", "person", "-version").distinct("by", "person")
    values = [word.value for word in newest]
    if values:
        earned = {"late_reward" if late else "reward": math.fsum(values) / len(values), "rewarded_at": Now()}
        EpisodeTurn.objects.filter(pk=turn.pk).update(**earned)


def _teach(episode: Episode, turn: EpisodeTurn, user: User, correction: str) -> None:
    """A correction is a demonstration, and better than what the policy said where the two differ. Said twice they are one."""
    before = recorded(list(episode.seen.filter(number__lt=turn.number).order_by("number")))
    rest = recorded([EpisodeTurn(number=turn.number, episode_id=episode.pk, observation=turn.observation)])
    prompt = [{"role": said.role, "content": said.content} for said in (*before, *rest)]
    run = episode.run
    common = {
        "project_id": run.project_id, "task_id": episode.rollout.group.task_id, "run": run, "prompt": prompt, "author": user,
        "source": f"feedback on turn {turn.number} of episode {episode.pk}",
    }  # fmt: skip
    lessons = [Demonstration(**common, answer=correction).keyed()]
    if turn.action.strip() and turn.action != correction:
        lessons.append(Preference(**common, chosen=correction, rejected=turn.action).keyed())
    for lesson in lessons:
        type(lesson).objects.bulk_create([lesson], ignore_conflicts=True)
