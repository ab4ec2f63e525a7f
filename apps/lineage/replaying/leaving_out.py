"""The people and tasks that a replay excludes, and the recorded data that they affect."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Q, QuerySet

from apps.accounts.models import User
from apps.feedback.models import Adjudication, Demonstration, Intervention, RaterModel, Rating
from apps.feedback.rater_model.training_data import not_set_aside
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.tasksets.models import Task


class UnknownLeftOut(LookupError):
    """Raised for people or tasks that do not exist; `kind` is `raters` or `tasks`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class LeftOut:
    """The excluded people (ids) and tasks (ids) of one recorded run."""

    run: Run
    raters: frozenset[int]
    tasks: frozenset[int]

    @classmethod
    def of(cls, run: Run, raters: Iterable[str], tasks: Iterable[int]) -> "LeftOut":
        """Look up people by username and tasks by index.

        Raises UnknownLeftOut naming an unknown one.
        """
        people = dict(User.objects.filter(username__in=raters).values_list("username", "pk"))
        if tasks and not run.taskset_id:
            raise UnknownLeftOut(
                "tasks",
                f"run {run.slug!r} uses several tasksets, so a number alone doesn’t identify a"
                " task: leave out people instead",
            )
        places = dict(
            Task.objects.filter(taskset=run.taskset_id, index__in=tasks).values_list("index", "pk")
        )
        for name in raters:
            if name not in people:
                raise UnknownLeftOut("raters", f"no user {name!r}")
        for index in tasks:
            if index not in places:
                assert run.taskset is not None  # as checked above
                raise UnknownLeftOut("tasks", f"taskset {run.taskset.slug!r} has no task {index}")
        return cls(run, frozenset(people.values()), frozenset(places.values()))

    @property
    def ratings(self) -> QuerySet[Rating]:
        """Return the excluded people's ratings that were in time to be trained on."""
        return Rating.objects.filter(run=self.run, rater__in=self.raters, is_late=False)

    @property
    def interventions(self) -> QuerySet[Intervention]:
        return Intervention.objects.filter(
            rollout__run=self.run, by__in=self.raters, state=Intervention.State.DONE
        )

    @property
    def demonstrations(self) -> QuerySet[Demonstration]:
        """Return the experts' answers in the run by excluded people, or about excluded tasks."""
        return Demonstration.objects.filter(
            Q(author__in=self.raters) | Q(task__in=self.tasks), expert_answers__run=self.run
        )

    @cached_property
    def first_rating(self) -> int | None:
        """Return the id of the first excluded rating, late or not.

        Models that learned only earlier ratings know nothing of the excluded data.
        """
        ratings = Rating.objects.filter(run=self.run).filter(self.of_excluded)
        return ratings.order_by("pk").values_list("pk", flat=True).first()

    @property
    def of_excluded(self) -> Q:
        """Return the condition for ratings by the people, or about the tasks."""
        return (
            Q(rater__in=self.raters)
            | Q(item__group__task__in=self.tasks)
            | Q(rollout__group__task__in=self.tasks)
        )

    @cached_property
    def tainted_models(self) -> frozenset[int]:
        """Return the numbers of the run's rater models that learned excluded data."""
        if self.first_rating is None:
            return frozenset()
        models = RaterModel.objects.filter(run=self.run, last_rating__gte=self.first_rating)
        return frozenset(models.values_list("number", flat=True))

    def touched(self, groups: list[int]) -> set[int]:
        """Return those of these groups in which an excluded person rated or intervened."""
        if not self.raters:
            return set()
        ratings = self.ratings.filter(Q(item__group__in=groups) | Q(rollout__group__in=groups))
        touched_groups = {
            group
            for pair in ratings.values_list("item__group", "rollout__group")
            for group in pair
            if group
        }
        return touched_groups | set(
            Group.objects.filter(
                pk__in=groups, rollouts__in=self.interventions.values("rollout")
            ).values_list("pk", flat=True)
        )

    def left_to_learn(self, last_rating: int) -> list[int]:
        """Return the ids of ratings in force at that last rating, without the excluded ones.

        A refitted model learns from these.
        """
        ratings = (
            Rating.objects.standing_at(last_rating).filter(run=self.run).exclude(self.of_excluded)
        )
        settled = Adjudication.objects.filter(item__run=self.run, rating__in=ratings)
        return list(not_set_aside(ratings, settled).order_by("pk").values_list("pk", flat=True))
