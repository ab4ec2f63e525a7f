"""Rollouts as rows of lists and cards, with their task and the ratings that the user may see."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery

from apps.accounts.models import User
from apps.buffer.models import Experience, StepItem
from apps.feedback.models import STARS, Rating
from apps.rewards.combining import Judgement, combined
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.blind_review import open_among
from apps.runs.config import RunConfig
from apps.runs.models import Run

EXCERPT = 240
TAKEN = StepItem.objects.filter(experience=OuterRef("pk")).order_by("-step__number")
# The advantage in the newest step that used the experience; NULL: the experience's own.
COUNTED = Subquery(TAKEN.values("advantage")[:1])
STEP = Subquery(TAKEN.values("step__number")[:1])


if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class _Used(TypedDict):
        counted: float | None
        step: int | None

    UsedExperience = WithAnnotations[Experience, _Used]

    class _Judged(TypedDict):
        judgements: list[Reward]
        learned: list[UsedExperience]

    JudgedRollout = WithAnnotations[Rollout, _Judged]
else:  # names for annotations: rollouts that `with_judgements` loaded, and their experiences
    UsedExperience = Experience
    JudgedRollout = Rollout


def with_judgements(rollouts: QuerySet[Rollout], with_run: bool = True) -> QuerySet[JudgedRollout]:
    """Load everything a row shows together with the rollouts, in four queries.

    Rollouts of one run share it: its configuration is read once. A caller that has the run already
    loads them without it, and assigns it.
    """
    current = (
        Reward.objects.filter(is_current=True)
        .select_related("by")
        .order_by("source", "scorer", "pk")
    )
    run = [Prefetch("run", Run.objects.select_related("project"))] if with_run else []
    return rollouts.select_related("group__task").prefetch_related(
        *run,
        Prefetch("rewards", current, to_attr="judgements"),
        Prefetch(
            "experiences",
            Experience.objects.annotate(counted=COUNTED, step=STEP).order_by("pk"),
            to_attr="learned",
        ),
    )


def list_chips(judgements: Sequence[Reward]) -> list[Reward]:
    """Return the rewards that a list shows.

    People's combined rating is left out if it equals the only single rating.
    """
    ratings = [reward for reward in judgements if reward.by_id is not None]
    if len(ratings) != 1:
        return list(judgements)
    return [
        reward
        for reward in judgements
        if reward.source != Reward.Source.HUMAN or reward.by_id or reward.value != ratings[0].value
    ]


def build_rollout_row(rollout: JudgedRollout, plan: RunConfig) -> dict:
    """Return the fields that a list shows of a rollout.

    The reward is the one used at admission, else the combination of ratings so far.
    """
    return {
        **_bare(rollout),
        "is_open": True,
        "reward": find_shown_reward(rollout, plan),
        "judgements": rollout.judgements,
        "chips": list_chips(rollout.judgements),
        "advantage": find_used_advantage(rollout.learned[0]) if rollout.learned else None,
        "version": rollout.last_version,
        "step": rollout.learned[0].step if rollout.learned else None,
        "station": rollout.group.state,
    }


def blind_row(rollout: JudgedRollout, user: User) -> dict:
    """Return the row for someone who rates blind: of all ratings only their own."""
    own_judgements = [judgement for judgement in rollout.judgements if judgement.by_id == user.pk]
    station = rollout.group.state if rollout.group.state in Group.OPEN else "closed"
    return {
        **_bare(rollout),
        "is_open": False,
        "reward": None,
        "judgements": own_judgements,
        "chips": own_judgements,
        "advantage": None,
        "version": None,
        "step": None,
        "station": station,
    }


def _bare(rollout: Rollout) -> dict:
    task = rollout.group.task
    return {
        "rollout": rollout,
        "question": task.question,
        "prompt": task.prompt,
        "excerpt": rollout.text[:EXCERPT],
    }


def find_used_advantage(experience: UsedExperience) -> float:
    """Return the advantage used in the step, else the one within the group.

    They differ when the advantage depends on the whole batch.
    """
    return experience.advantage if experience.counted is None else experience.counted


def find_shown_reward(rollout: JudgedRollout, plan: RunConfig) -> float | None:
    if rollout.learned:
        return rollout.learned[0].reward
    judgements = [
        Judgement(r.scorer, r.value, r.source == Reward.Source.HUMAN)
        for r in rollout.judgements
        if not r.is_late
    ]
    return combined(judgements, plan, rollout.group.task.kind) if judgements else None


def build_rollout_rows(
    rollouts: Collection[JudgedRollout], user: User, open_runs: set[int] | None = None
) -> list[dict]:
    """Return each rollout as the user may see it.

    `open_runs` are the runs not rated blind, if the caller knows them already.
    """
    if open_runs is None:
        open_runs = open_among(user, {rollout.run_id for rollout in rollouts})
    runs = {rollout.run_id: rollout.run for rollout in rollouts if rollout.run_id in open_runs}
    settings = {pk: run.settings for pk, run in runs.items()}
    return [
        (
            build_rollout_row(rollout, settings[rollout.run_id])
            if rollout.run_id in open_runs
            else blind_row(rollout, user)
        )
        for rollout in rollouts
    ]


def own_stars(rollouts: Iterable[Rollout], user: User) -> dict[int, int]:
    """Return {rollout id: the user's current stars}, in one query."""
    own_ratings = Rating.objects.counting().filter(
        rater=user, rollout__in=[rollout.pk for rollout in rollouts], form=STARS
    )
    return {
        rollout: answer["stars"]
        for rollout, answer in own_ratings.order_by("pk").values_list("rollout_id", "answer")
    }


def newest_rollouts(run: Run, count: int, user: User, is_open: bool) -> list[dict]:
    """Return the last finished rollouts of the run, as the user may see them."""
    finished = (
        Rollout.objects.newest_of(run)
        .without_anchors()
        .filter(state=Rollout.State.FINISHED)[:count]
    )
    return build_rollout_rows(with_judgements(finished), user, {run.pk} if is_open else set())
