"""Trace from weights back to the ratings that shaped them, and from a rating forward to weights.

A rating reaches a step in three ways: its rollouts are in the step's batch; a rater model that
had learned it gave rewards there; or its rewrite is there as an expert's answer. All are read by
key, a step at a time. Ratings count as they were at the time: a rating that was changed or
withdrawn after its group was judged has still shaped the step.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.buffer.models import Experience, Recorded, SnapshotItem, StepItem, StepLesson
from apps.feedback.models import (
    Adjudication,
    Demonstration,
    ExpertAnswer,
    Preference,
    RaterModel,
    Rating,
)
from apps.feedback.rater_model.training_data import not_set_aside
from apps.rewards.combining import PEOPLE, RATER_MODEL
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep, WeightVersion

STEPS_SHOWN = 20
USES_SHOWN = 50
# What pages and REST show of a traced rating: a step may have thousands.
SHOWN_OF_RATINGS = (
    "run",
    "form",
    "answer",
    "shown",
    "is_late",
    "at",
    "rater__username",
    "rater__is_simulated",
    "item__group",
    "rollout__group",
)


@dataclass
class UpdateInfluence:
    """The human data that influenced one step.

    `models` maps the number of each rater model whose rewards it used to the number of rollouts.
    """

    step: TrainStep
    rollouts: int = 0
    ratings: list[Rating] = field(default_factory=list)
    models: dict[int, int] = field(default_factory=dict)
    answers: list[Demonstration] = field(default_factory=list)

    @property
    def people(self) -> int:
        """Return the number of people's ratings; the simulated rater does not count."""
        raters = {rating.rater for rating in self.ratings}
        return sum(not rater.is_simulated for rater in raters)


def trace_weights(
    version: WeightVersion, before: int | None = None, limit: int = STEPS_SHOWN
) -> tuple[list[UpdateInfluence], bool]:
    """Return the steps behind these weights, newest first, and whether there are older ones.

    Only steps below `before` are returned. Ten queries at most, whatever the run's length.
    """
    updates = TrainStep.objects.filter(
        run=version.run_id, state=TrainStep.State.COMMITTED, number__lte=version.step
    )
    updates = updates.filter(number__lt=before) if before is not None else updates
    steps = list(updates.order_by("-number")[: limit + 1])
    by_step = {step.pk: UpdateInfluence(step) for step in steps[:limit]}
    _fill(by_step)
    return list(by_step.values()), len(steps) > limit


def trace_updates(steps: QuerySet[TrainStep]) -> list[UpdateInfluence]:
    """Return what shaped these steps, newest first. Ten queries at most."""
    by_step = {step.pk: UpdateInfluence(step) for step in steps.order_by("-number")}
    _fill(by_step)
    return list(by_step.values())


def _fill(by_step: dict[int, UpdateInfluence]) -> None:
    items = StepItem.objects.filter(step__in=by_step)
    item_rows = list(
        items.values_list("step", "experience__group", "experience__rollout", "experience__kind")
    )
    groups: dict[int, dict[int, UpdateInfluence]] = defaultdict(dict)
    rollouts: dict[int, dict[int, UpdateInfluence]] = defaultdict(dict)
    experts = defaultdict(list)
    # An answer may occur as a sample and as the expert row made of it.
    for (
        step,
        group,
        rollout,
        kind,
    ) in item_rows:
        groups[group][step] = rollouts[rollout][step] = by_step[step]
        if kind == Experience.Kind.USUAL:
            by_step[step].rollouts += 1
        else:
            experts[rollout].append(by_step[step])
    for rating in list_counted_ratings(list(groups)):
        for shaping in groups[find_group_id(rating)].values():
            shaping.ratings.append(rating)
    rewards = Reward.objects.filter(
        rollout__in=rollouts, scorer=RATER_MODEL, details__has_key="rater_model"
    )
    for rollout, number in rewards.values_list("rollout", "details__rater_model"):
        for shaping in rollouts[rollout].values():
            shaping.models[number] = shaping.models.get(number, 0) + 1
    for answer in ExpertAnswer.objects.filter(rollout__in=experts).select_related(
        "demonstration__author"
    ):
        for shaping in experts[answer.rollout_id]:
            shaping.answers.append(answer.demonstration)


def list_counted_ratings(groups: Sequence[int]) -> list[Rating]:
    """Return the ratings that counted when these groups were judged, oldest first.

    They are the ratings behind people's rewards. In groups without such rewards, they are those
    that were in force and in time.
    """
    group_rewards = Reward.objects.filter(scorer=PEOPLE, by=None, rollout__group__in=groups)
    rewards = list(group_rewards.values_list("rollout__group", "details__ratings"))
    counted_ids = {pk for _, ratings in rewards for pk in ratings or ()}
    judged_groups = {group for group, _ in rewards}
    on_time = Rating.objects.filter(is_late=False).select_related("rater", "item", "rollout")
    on_time = on_time.only(*SHOWN_OF_RATINGS)
    in_force = [
        *on_time.filter(item__group__in=groups),
        *on_time.filter(item=None, rollout__group__in=groups),
    ]
    open_ids = [rating.pk for rating in in_force if find_group_id(rating) not in judged_groups]
    in_time_ids = set(Rating.objects.in_time().filter(pk__in=open_ids).values_list("pk", flat=True))
    return sorted(
        (rating for rating in in_force if rating.pk in counted_ids or rating.pk in in_time_ids),
        key=lambda rating: rating.pk,
    )


def find_group_id(rating: Rating) -> int:
    if rating.item:
        return rating.item.group_id
    assert rating.rollout is not None  # a rating is of an item or of a rollout
    return rating.rollout.group_id


def learned_by(model: RaterModel) -> QuerySet[Rating]:
    """Return the ratings that a rater model has learned.

    They were in force when it was fitted and not set aside. A replay's models learned from the run
    that it replays, without the excluded ones.
    """
    replay = model.run.settings.replay
    ratings = Rating.objects.standing_at(model.last_rating_id).filter(run=model.last_rating.run_id)
    if replay:
        ratings = ratings.exclude(rater__username__in=replay.without_raters)
        tasks = replay.without_tasks
        ratings = ratings.exclude(
            Q(item__group__task__index__in=tasks) | Q(rollout__group__task__index__in=tasks)
        )
    settled = Adjudication.objects.filter(item__run=model.last_rating.run_id, rating__in=ratings)
    return not_set_aside(ratings, settled).select_related("rater", "item", "rollout")


# -- forward


@dataclass(frozen=True)
class Use:
    """A step that used something of a rating.

    `version` is the first version that contains it, if there is one already.
    """

    step: TrainStep
    version: WeightVersion | None
    items: tuple[StepItem, ...] = ()


@dataclass(frozen=True)
class RatingEffects:
    """The effects of a rating.

    `model` is the first rater model that learned it; `by_model` the first step that this model
    shaped. `replays` are other runs that repeat the steps with its group; `lessons` are runs that
    learned from its rewrite.
    """

    rating: Rating
    uses: list[Use]
    model: RaterModel | None
    by_model: Use | None
    answers: list[Use]
    replays: list[Run]
    lessons: list[Run]

    @property
    def first(self) -> Use | None:
        """Return the first step that any part of it reached."""
        uses = [*self.uses, *self.answers, *([self.by_model] if self.by_model else [])]
        return min(uses, key=lambda use: use.step.number, default=None)


def forward(rating: Rating) -> RatingEffects:
    """Return the effects of this rating; a fixed number of queries for each kind."""
    group = find_group_id(rating)
    group_items = StepItem.objects.filter(experience__group=group)
    model, last = _models(rating)
    return RatingEffects(
        rating=rating,
        uses=_uses(group_items.filter(experience__rollout__in=_counted_for(rating, group))),
        model=model,
        by_model=_first_use(model, last) if model and last else None,
        answers=_uses(
            StepItem.objects.filter(
                experience__rollout__expert_answer__demonstration__in=_demonstrations_made(rating)
            )
        ),
        replays=list(
            Run.objects.filter(
                pk__in=Recorded.objects.filter(of=group).values("run")
            ).select_related("project")
        ),
        lessons=_lesson_runs(rating),
    )


def _uses(items: QuerySet[StepItem]) -> list[Use]:
    committed = items.filter(step__state=TrainStep.State.COMMITTED).select_related(
        "step", "experience__rollout"
    )
    by_step: dict[int, list[StepItem]] = defaultdict(list)
    for item in committed.order_by("step__number", "position")[:USES_SHOWN]:
        by_step[item.step_id].append(item)
    return [
        Use(step_items[0].step, version_after(step_items[0].step), tuple(step_items))
        for step_items in by_step.values()
    ]


def version_after(step: TrainStep) -> WeightVersion | None:
    """Return the first version that contains this step."""
    later = WeightVersion.objects.filter(run=step.run_id, step__gte=step.number).exclude(
        state=WeightVersion.State.REFUSED
    )
    return later.order_by("version").first()


def _counted_for(rating: Rating, group: int) -> list[int]:
    """Return the rollouts for which the rating counted when their group was judged."""
    group_rewards = Reward.objects.filter(scorer=PEOPLE, by=None, rollout__group=group).values_list(
        "rollout", "details__ratings"
    )
    if rewards := list(group_rewards):
        return [rollout for rollout, ratings in rewards if rating.pk in (ratings or ())]
    return rating.members if Rating.objects.in_time().filter(pk=rating.pk).exists() else []


def _models(rating: Rating) -> tuple[RaterModel | None, RaterModel | None]:
    """Return the first and the last rater model that had learned the rating.

    Later models were fitted after it was changed or withdrawn.
    """
    knew = RaterModel.objects.filter(run=rating.run_id, last_rating__gte=rating.pk).order_by(
        "number"
    )
    changed = (
        Rating.objects.filter(replaces=rating).order_by("pk").values_list("pk", flat=True).first()
    )
    if changed is not None:
        knew = knew.filter(last_rating__lt=changed)
    first = knew.select_related("run", "last_rating").first()
    if first is None or not learned_by(first).filter(pk=rating.pk).exists():
        return None, None
    return first, knew.last()


def _first_use(model: RaterModel, last: RaterModel) -> Use | None:
    """Return the first step that used a reward of `model` or a later one up to `last`.

    Only steps planned since the model was fitted are searched.
    """
    rewards = Reward.objects.filter(
        rollout=OuterRef("experience__rollout"),
        scorer=RATER_MODEL,
        details__rater_model__gte=model.number,
        details__rater_model__lte=last.number,
    )
    steps = TrainStep.objects.filter(
        run=model.run_id, state=TrainStep.State.COMMITTED, planned_at__gte=model.fitted_at
    )
    rewarded_items = StepItem.objects.filter(Exists(rewards), step=OuterRef("pk"))
    step = steps.filter(Exists(rewarded_items)).order_by("number").first()
    return Use(step, version_after(step)) if step else None


def _demonstrations_made(rating: Rating) -> list[int]:
    """Return the demonstrations that this rating made."""
    if rating.form != "rewrite" or rating.rollout_id is None:
        return []
    demonstrations = Demonstration.objects.filter(
        run=rating.run_id, author=rating.rater_id, source=f"rewrite of rollout {rating.rollout_id}"
    )
    return list(demonstrations.values_list("pk", flat=True))


def _lesson_runs(rating: Rating) -> list[Run]:
    """Return runs whose steps took the demonstration or the preference that this rating made."""
    if rating.form != "rewrite" or rating.rollout_id is None:
        return []
    origin = {
        "run": rating.run_id,
        "author": rating.rater_id,
        "source": f"rewrite of rollout {rating.rollout_id}",
    }
    matching = Q()
    for source, kind in (("demonstrations", Demonstration), ("preferences", Preference)):
        matching |= Q(
            snapshot__source=source,
            lesson__in=list(kind.objects.filter(**origin).values_list("pk", flat=True)),
        )
    step_lessons = StepLesson.objects.filter(item__in=SnapshotItem.objects.filter(matching))
    return list(
        Run.objects.filter(pk__in=step_lessons.values("step__run")).select_related("project")
    )


def find_rated_group(rating: Rating) -> Group:
    """Return the group that the rating is about, with its task."""
    return Group.objects.select_related("task").get(pk=find_group_id(rating))
