"""Machine judgement of whole groups: open questions, and the storage of answers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Q, QuerySet, prefetch_related_objects
from django.db.models.functions import Now
from pydantic import ValidationError

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.accounts.locking import rows_to_lock, unit_of_work
from apps.accounts.models import Project
from apps.accounts.public_text import public_text
from apps.rewards import learned, scorers
from apps.rewards.code.missing import find_code_problems as problems_of_code_tests
from apps.rewards.models import NewReward, Rescoring, Reward
from apps.rewards.own_judges import find_own_judge_problems as problems_of_own_judges
from apps.rewards.own_options import find_own_option_problems as problems_of_own_options
from apps.rewards.own_options import task_options
from apps.rewards.scorers import RolloutView, TaskView, Verdict
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.config import ConfigError, RunConfig, ScorerChoice
from apps.runs.models import Usage, after
from apps.runs.people import People
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind
from apps.tasksets.models import Task, Taskset

UNJUDGED_SHOWN = 5  # domains that a refusal names
Values = Mapping[int, Mapping[str, float | None]]  # by rollout and scorer


@dataclass(frozen=True)
class Question:
    """Rollouts of one group for one scorer, in plain data that can cross to a child process:
    one, or all for a scorer of groups.
    """

    group_id: int
    scorer: str
    rollout_ids: tuple[int, ...]
    rollouts: tuple[RolloutView, ...]
    task: TaskView
    options: Mapping[str, object] = field(default_factory=dict)

    def with_values(
        self, values_by_rollout: Mapping[int, Mapping[str, float | None]]
    ) -> "Question":
        """Return the question with the other scorers' values of each rollout."""
        pairs = zip(self.rollout_ids, self.rollouts, strict=True)
        return replace(
            self,
            rollouts=tuple(
                replace(view, values=dict(values_by_rollout.get(pk, {}))) for pk, view in pairs
            ),
        )


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with a verdict for each of its rollouts, how long that took, and what it used,
    by kind (apps.runs.costs).
    """

    question: Question
    verdicts: Sequence[Verdict]
    seconds: float | None = None
    used: Mapping[str, float] = field(default_factory=dict)


def require_known_scorers(plan: RunConfig, project: Project, domain: str = "") -> None:
    """Raise ConfigError for scorers, options, domains or tasks that do not fit each other.

    It names scorers that do not exist, options that they do not take (the run's, and those that
    tasks have of their own), domains that none judges, and tasks that name scorers which the run
    has not. With a `domain`, that one alone must be judged.
    """
    problems: dict[str, str] = {}
    for place, choice in enumerate(plan.rewards):
        problems |= {
            f"rewards.{place}.{name}": why for name, why in _problems(choice, project).items()
        }
    repeated = [
        choice.scorer
        for choice in plan.rewards
        if sum(other_choice.scorer == choice.scorer for other_choice in plan.rewards) > 1
    ]
    if repeated:
        problems["rewards"] = f"{repeated[0]} is listed twice; list each scorer once"
    tasks = Task.objects.filter(
        taskset__in=Taskset.objects.filter(project=project, slug__in=plan.taskset_names)
    )
    if not problems:
        problems = _uncovered_domains(plan, tasks, domain) | _rescoring_problems(plan, project)
        problems |= problems_of_own_options(plan, tasks) | problems_of_own_judges(plan, tasks)
        problems |= problems_of_code_tests(plan, tasks)
    if problems:
        raise ConfigError(problems)


def _rescoring_problems(plan: RunConfig, project: Project) -> dict[str, str]:
    """Return problems of the rescoring that a replay trains on, by field.

    The recorded run may lack that rescoring, or have it with scorers other than the plan's.
    """
    replay = plan.replay
    if replay is None or replay.rescoring is None:
        return {}
    rescoring = Rescoring.objects.filter(
        run__project=project, run__slug=replay.run, pk=replay.rescoring
    ).first()
    if rescoring is None or rescoring.state != Rescoring.State.DONE:
        return {
            "replay.rescoring": (
                f"run {replay.run!r} has no completed rescoring {replay.rescoring}"
            )
        }
    if rescoring.choices != plan.rewards:
        return {
            "rewards": (
                f"must match rescoring {rescoring.pk} of {replay.run!r}: start the replay on the "
                "page of the rescoring"
            )
        }
    return {}


def _problems(choice: ScorerChoice, project: Project) -> dict[str, str]:
    if learned.is_learned(choice.scorer):
        try:
            learned.find_reward_model(project.pk, choice.scorer)
        except LookupError as missing:
            return {"scorer": str(missing)}
        return {"options": "learned scorers have no options"} if choice.options else {}
    try:
        scorers.find_scorer(choice.scorer).read_options(choice.options)
    except LookupError as missing:
        learned_ones = f"reward models trained by runs are named {learned.PREFIX}RUN"
        return {"scorer": public_text(f"{missing}; {learned_ones}")}
    except ValidationError as bad:
        return {
            ".".join(("options", *map(str, error["loc"]))): error["msg"] for error in bad.errors()
        }
    return {}


def _uncovered_domains(plan: RunConfig, tasks: QuerySet[Task], domain: str) -> dict[str, str]:
    """Return a problem that names the domains of these tasks without any judge."""
    of_judges = [judge.domains for judge in plan.judges]
    of_all = [*of_judges, plan.people.domains] if plan.people.per_group else of_judges
    if not of_all or not all(of_all):
        return {}
    # The other tasks name their own judges.
    without_own_judges = tasks.filter(
        Q(**{f"meta__{JUDGED_BY}__isnull": True}) | Q(**{f"meta__{JUDGED_BY}": None})
    )
    domains = set(
        (without_own_judges.filter(domain=domain) if domain else without_own_judges)
        .values_list("domain", flat=True)
        .distinct()
    )
    uncovered = sorted(
        name or "(none)"
        for name in domains
        if not plan.judges_of(Kind(name)) and not plan.people.asks_about(name)
    )
    return (
        {"rewards": f"no scorer covers tasks of domain {', '.join(uncovered[:UNJUDGED_SHOWN])}"}
        if uncovered
        else {}
    )


def open_questions(groups: Sequence[Group]) -> list[Question]:
    """Return the questions that the machine scorers of these groups' runs have not answered yet.

    Failed rollouts are not asked about.
    """
    prefetch_related_objects(groups, "run")
    return list_missing_questions(groups, lambda group: group.run.settings, known_values(groups))


def list_missing_questions(
    groups: Sequence[Group], plan_of: Callable[[Group], RunConfig], stored_values: Values
) -> list[Question]:
    """Return the plans' scorings that are still missing.

    `stored_values`: values by rollout and scorer.

    A scorer of groups is asked about the whole group, or not at all.
    """
    views = _views(groups)
    tasks = Task.objects.in_bulk(
        {group.task_id for group in groups}
    )  # once for each group, not for each of its rollouts
    questions = []
    for group in groups:
        task = _task_view(tasks[group.task_id])
        for choice in plan_of(group).scorers_of(tasks[group.task_id].kind):
            unscored_pks = [
                pk for pk in views[group.pk] if choice.scorer not in stored_values.get(pk, {})
            ]
            if unscored_pks:
                questions += _build_questions(group, choice, task, views[group.pk], unscored_pks)
    return questions


def _build_questions(
    group: Group,
    choice: ScorerChoice,
    task: TaskView,
    views: Mapping[int, RolloutView],
    unscored_pks: Sequence[int],
):
    sets = [tuple(views)] if judges_groups(choice.scorer) else [(pk,) for pk in unscored_pks]
    options = task_options(choice, task.meta)
    return [
        Question(group.pk, choice.scorer, pks, tuple(views[pk] for pk in pks), task, options)
        for pks in sets
    ]


def judges_groups(scorer: str) -> bool:
    return scorer in scorers.scorer_names() and scorers.find_scorer(scorer).of_group


def _task_view(task: Task) -> TaskView:
    return TaskView(task.prompt, task.answer, task.domain, task.meta)


def finished_rollouts(groups: list[int]) -> QuerySet[Rollout]:
    """Return the rollouts of these groups (ids) that scorers judge, in sample order."""
    finished = Rollout.objects.filter(EqualsAny("group", groups), state=Rollout.State.FINISHED)
    return finished.exclude(origin=Rollout.Origin.SYNTHETIC).order_by("sample_index")


def _views(groups: Sequence[Group]) -> dict[int, dict[int, RolloutView]]:
    """Return the scorers' views of the rollouts, by group and rollout."""
    views: dict[int, dict[int, RolloutView]] = defaultdict(dict)
    for pk, group, text, turns, tokens, stop_reason in _replies([group.pk for group in groups]):
        views[group][pk] = RolloutView(text, said_by_policy(text, turns), tokens, stop_reason)
    return views


@compiled_query
def _replies(groups: list[int]) -> QuerySet[Rollout, tuple[int, int, str, Any, int, str]]:
    rows = finished_rollouts(groups)
    return rows.values_list("pk", "group_id", "text", "turns", "completion_tokens", "stop_reason")


def known_values(groups: Sequence[Group]) -> dict[int, dict[str, float | None]]:
    """Return the machine rewards of these groups' rollouts, by rollout and scorer."""
    values: dict[int, dict[str, float | None]] = defaultdict(dict)
    for rollout, scorer, value in _machine_values([group.pk for group in groups]):
        values[rollout][scorer] = value
    return values


@compiled_query
def _machine_values(groups: list[int]) -> QuerySet[Reward, tuple[int, str, float | None]]:
    rows = Reward.objects.filter(EqualsAny("rollout__group", groups), by=None)
    return rows.values_list("rollout_id", "scorer", "value")


@unit_of_work
def record_verdicts(groups: Sequence[Group], answers: Sequence[AnsweredQuestion]) -> list[Group]:
    """Write the verdicts and hand the groups on: to people when the run asks them, else to the
    refiner.

    Nothing is written for groups that this worker no longer holds. Returns the groups handed on.
    """
    fences = {group.pk: group.fence for group in _lock_scoring([group.pk for group in groups])}
    held_groups = [group for group in groups if fences.get(group.pk) == group.fence]
    held_ids = {group.pk for group in held_groups}
    Reward.objects.put(
        reward
        for answer in answers
        if answer.question.group_id in held_ids
        for reward in _rewards(answer)
    )
    count_used(answers, held_groups)
    hand_on(held_groups)
    return held_groups


@compiled_query
def _lock_scoring(pks: list[int]) -> QuerySet[Group]:
    scoring = Group.objects.not_expired().filter(state=Group.State.SCORING)
    return rows_to_lock(scoring.filter(EqualsAny("pk", pks)))


def count_used(answers: Sequence[AnsweredQuestion], groups: Sequence[Group]) -> None:
    """Add what the answers used to the usage of their runs, in the caller's transaction.

    It is counted for the worker that holds the group.
    """
    homes = {group.pk: (group.run_id, group.lease_owner) for group in groups}
    usage: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for answer in answers:
        if answer.used and (home := homes.get(answer.question.group_id)):
            usage[home].update(answer.used)
    Usage.add_all(usage)


def _rewards(answer: AnsweredQuestion) -> list[NewReward]:
    source = find_score_source(answer.question.scorer)
    return [NewReward(pk, source, **word) for pk, word in list_score_fields(answer)]


def find_score_source(scorer: str) -> str:
    return Reward.Source.MODEL if learned.is_learned(scorer) else Reward.Source.RULE


def list_score_fields(answer: AnsweredQuestion) -> Iterator[tuple[int, dict]]:
    """Yield (rollout id, fields) for each rollout of an answer.

    The fields are those of `apps.rewards.models.rewards.ScoreRecord`.
    """
    question = answer.question
    version = (
        scorers.find_scorer(question.scorer).version
        if question.scorer in scorers.scorer_names()
        else 1
    )
    common = {
        "scorer": question.scorer,
        "version": version,
        "options": question.options,
        "seconds": answer.seconds,
    }
    for pk, verdict in zip(question.rollout_ids, answer.verdicts, strict=True):
        reason = (verdict.reason or "no reason given")[:300]
        yield pk, {**common, "value": verdict.value, "reason": reason, "details": verdict.details}


def hand_on(groups: Sequence[Group]) -> None:
    """Pass each group to people if they judge tasks of its domain, otherwise to the refiner.

    The caller holds the groups' locks and the transaction.
    """
    domains = dict(_domains([group.task_id for group in groups]))
    for people, run_groups in _iterate_by_run(groups):
        for_people = [group for group in run_groups if people.asks_about(domains[group.task_id])]
        deadline = after(people.deadline_s)
        Group.move_locked(for_people, Group.State.WAITING, deadline_at=deadline)
        asked_about = {group.pk for group in for_people}
        remaining = [group for group in run_groups if group.pk not in asked_about]
        Group.move_locked(remaining, Group.State.JUDGED, judged_at=Now())


@compiled_query
def _domains(tasks: list[int]) -> QuerySet[Task, tuple[int, str]]:
    return Task.objects.filter(EqualsAny("pk", tasks)).values_list("pk", "domain")


def _iterate_by_run(groups: Sequence[Group]) -> Iterator[tuple[People, list[Group]]]:
    """Yield the `people` settings of each run with the run's groups."""
    by_run: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        by_run[group.run_id].append(group)
    for run_groups in by_run.values():
        yield run_groups[0].run.settings.people, run_groups
