"""Rollouts for lists and cards: each with its task and what this person may know of its judgements, in a few queries."""

from collections.abc import Iterable, Sequence

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery

from apps.accounts.models import User
from apps.buffer.models import Experience, StepItem
from apps.feedback.models import STARS, Rating
from apps.rewards.combining import Judgement, combined
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.blindness import open_among
from apps.runs.config import RunConfig
from apps.runs.models import Run

EXCERPT = 240
TAKEN = StepItem.objects.filter(experience=OuterRef("pk")).order_by("-step__number")
# The advantage in the newest update that took the experience; NULL: the experience's own.
COUNTED = Subquery(TAKEN.values("advantage")[:1])
STEP = Subquery(TAKEN.values("step__number")[:1])


def with_judgements(rollouts: QuerySet[Rollout]) -> QuerySet[Rollout]:
    """Load what a row shows along with the rollouts: three queries in all."""
    current = Reward.objects.filter(is_current=True).select_related("by").order_by("source", "scorer", "pk")
    return rollouts.select_related("group__task", "run__project").prefetch_related(
        Prefetch("rewards", current, to_attr="judgements"),
        Prefetch("experiences", Experience.objects.annotate(counted=COUNTED, step=STEP).order_by("pk"), to_attr="learned"),
    )


def row(rollout: Rollout, plan: RunConfig) -> dict:
    """What a list shows of a rollout. The reward is the one used at admission, else what the judges have said so far."""
    return {
        **_bare(rollout),
        "is_open": True,
        "reward": reward_of(rollout, plan),
        "judgements": rollout.judgements,
        "advantage": advantage_of(rollout.learned[0]) if rollout.learned else None,
        "version": rollout.last_version,
        "step": rollout.learned[0].step if rollout.learned else None,
        "station": rollout.group.state,
    }


def blind_row(rollout: Rollout, user: User) -> dict:
    """The same for who must not know what others and the machine said of it: their own word alone."""
    own = [judgement for judgement in rollout.judgements if judgement.by_id == user.pk]
    station = rollout.group.state if rollout.group.state in Group.OPEN else "closed"
    return {
        **_bare(rollout), "is_open": False, "reward": None, "judgements": own, "advantage": None, "version": None,
        "step": None, "station": station,
    }  # fmt: skip


def _bare(rollout: Rollout) -> dict:
    task = rollout.group.task
    return {"rollout": rollout, "question": task.question, "prompt": task.prompt, "excerpt": rollout.text[:EXCERPT]}


def advantage_of(experience: Experience) -> float:
    """What it counted in its update where that depended on the whole batch, else what it counted in its group."""
    return experience.advantage if experience.counted is None else experience.counted


def reward_of(rollout: Rollout, plan: RunConfig) -> float | None:
    if rollout.learned:
        return rollout.learned[0].reward
    said = [Judgement(r.scorer, r.value, r.source == Reward.Source.HUMAN) for r in rollout.judgements if not r.is_late]
    return combined(said, plan, rollout.group.task.kind) if said else None


def rows(rollouts: Sequence[Rollout], user: User, open_runs: set[int] | None = None) -> list[dict]:
    """Each rollout as this person may see it. `open_runs`: the runs not judged blind, where that has been asked already."""
    if open_runs is None:
        open_runs = open_among(user, {rollout.run_id for rollout in rollouts})
    runs = {rollout.run_id: rollout.run for rollout in rollouts if rollout.run_id in open_runs}
    settings = {pk: run.settings for pk, run in runs.items()}
    return [
        row(rollout, settings[rollout.run_id]) if rollout.run_id in open_runs else blind_row(rollout, user) for rollout in rollouts
    ]


def own_stars(rollouts: Iterable[Rollout], user: User) -> dict[int, int]:
    """{rollout id: the stars this person stands by}. One query."""
    mine = Rating.objects.counting().filter(rater=user, rollout__in=[rollout.pk for rollout in rollouts], form=STARS)
    return {rollout: answer["stars"] for rollout, answer in mine.order_by("pk").values_list("rollout_id", "answer")}


def newest_rollouts(run: Run, count: int, user: User, is_open: bool) -> list[dict]:
    """The last finished rollouts of the run, as this person may see them."""
    finished = Rollout.objects.newest_of(run).without_anchors().filter(state=Rollout.State.FINISHED)[:count]
    return rows(with_judgements(finished), user, {run.pk} if is_open else set())
