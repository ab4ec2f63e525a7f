"""Machine judgement of whole groups: which questions are open, and what becomes of the answers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import Q, QuerySet, prefetch_related_objects
from django.db.models.functions import Now
from pydantic import ValidationError

from apps.accounts.locking import lock, unit_of_work
from apps.accounts.models import Project
from apps.rewards import learned, scorers
from apps.rewards.models import Rescoring, Reward
from apps.rewards.own_judges import problems_of as problems_of_own_judges
from apps.rewards.own_options import options_of
from apps.rewards.own_options import problems_of as problems_of_own_options
from apps.rewards.scorers import RolloutView, TaskView, Verdict
from apps.rollouts.models import IN_FORCE, Group, Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.config import ConfigError, RunConfig, ScorerChoice
from apps.runs.models import Usage, after
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind
from apps.tasksets.models import Task, Taskset

UNJUDGED_SHOWN = 5  # domains that a refusal names
Values = Mapping[int, Mapping[str, float | None]]  # by rollout and scorer


@dataclass(frozen=True)
class Question:
    """Rollouts of one group for one scorer, in plain data that can cross to a child process: one, or all for a scorer of groups."""

    group_id: int
    scorer: str
    rollout_ids: tuple[int, ...]
    rollouts: tuple[RolloutView, ...]
    task: TaskView
    options: Mapping[str, object] = field(default_factory=dict)

    def with_values(self, said: Mapping[int, Mapping[str, float | None]]) -> "Question":
        """The same, with what other scorers said of each rollout."""
        pairs = zip(self.rollout_ids, self.rollouts, strict=True)
        return replace(self, rollouts=tuple(replace(view, values=dict(said.get(pk, {}))) for pk, view in pairs))


@dataclass(frozen=True)
class Answered:
    """A question with a verdict for each of its rollouts, how long that took, and what it used, by kind (apps.runs.costs)."""

    question: Question
    verdicts: Sequence[Verdict]
    seconds: float | None = None
    used: Mapping[str, float] = field(default_factory=dict)


def require_known_scorers(plan: RunConfig, project: Project, domain: str = "") -> None:
    """Raises ConfigError naming the scorers that do not exist, options that they do not take (the run's, and those that tasks have
    of their own), domains that none judges, and tasks that name scorers which the run has not.

    With a `domain`, that one alone must be judged.
    """
    problems: dict[str, str] = {}
    for place, choice in enumerate(plan.rewards):
        problems |= {f"rewards.{place}.{name}": why for name, why in _problems(choice, project).items()}
    twice = [choice.scorer for choice in plan.rewards if sum(other.scorer == choice.scorer for other in plan.rewards) > 1]
    if twice:
        problems["rewards"] = f"{twice[0]} is there twice; a scorer judges a rollout once"
    tasks = Task.objects.filter(taskset__in=Taskset.objects.filter(project=project, slug__in=plan.taskset_names))
    if not problems:
        problems = _unjudged(plan, tasks, domain) | _missing_set(plan, project)
        problems |= problems_of_own_options(plan, tasks) | problems_of_own_judges(plan, tasks)
    if problems:
        raise ConfigError(problems)


def _missing_set(plan: RunConfig, project: Project) -> dict[str, str]:
    """The new set of rewards that a replay learns from, where the recorded run has none such, or it is not of these scorers."""
    replay = plan.replay
    if replay is None or replay.rescoring is None:
        return {}
    found = Rescoring.objects.filter(run__project=project, run__slug=replay.run, pk=replay.rescoring).first()
    if found is None or found.state != Rescoring.State.DONE:
        return {"replay.rescoring": f"run {replay.run!r} has no set of rewards {replay.rescoring} that is done"}
    if found.choices != plan.rewards:
        return {"rewards": f"are those of the set {found.pk} of {replay.run!r}: replay it from that set's page"}
    return {}


def _problems(choice: ScorerChoice, project: Project) -> dict[str, str]:
    if learned.is_learned(choice.scorer):
        try:
            learned.find(project.pk, choice.scorer)
        except LookupError as missing:
            return {"scorer": str(missing)}
        return {"options": "a learned scorer takes none"} if choice.options else {}
    if choice.scorer not in scorers.names():
        return {"scorer": f"no scorer {choice.scorer!r}; known: {', '.join(scorers.names())}, and {learned.PREFIX}RUN"}
    try:
        scorers.find(choice.scorer).read_options(choice.options)
    except ValidationError as bad:
        return {".".join(("options", *map(str, error["loc"]))): error["msg"] for error in bad.errors()}
    return {}


def _unjudged(plan: RunConfig, tasks: QuerySet[Task], domain: str) -> dict[str, str]:
    """Domains of these tasks which would get no reward at all."""
    everybody = [*plan.judges, plan.people] if plan.people.per_group else plan.judges
    if not everybody or any(not judge.domains for judge in everybody):
        return {}
    # The others say themselves who judges them.
    rest = tasks.filter(Q(**{f"meta__{JUDGED_BY}__isnull": True}) | Q(**{f"meta__{JUDGED_BY}": None}))
    domains = set((rest.filter(domain=domain) if domain else rest).values_list("domain", flat=True).distinct())
    left = sorted(one or "(none)" for one in domains if not plan.judges_of(Kind(one)) and not plan.people.asks_about(one))
    return {"rewards": f"nobody judges the tasks of domain {', '.join(left[:UNJUDGED_SHOWN])}"} if left else {}


def open_questions(groups: Sequence[Group]) -> list[Question]:
    """What the machine scorers of these groups' runs have not judged yet. Failed rollouts are not asked about."""
    prefetch_related_objects(groups, "run")
    return questions_of(groups, lambda group: group.run.settings, known_values(groups))


def questions_of(groups: Sequence[Group], plan_of: Callable[[Group], RunConfig], known: Values) -> list[Question]:
    """What the scorers of the plans have not said yet; `known` is what was, by rollout and scorer.

    A scorer of groups is asked about the whole group, or not at all.
    """
    views = _views(groups)
    tasks = Task.objects.in_bulk({group.task_id for group in groups})  # once for each group, not for each of its rollouts
    questions = []
    for group in groups:
        task = _task_view(tasks[group.task_id])
        for choice in plan_of(group).scorers_of(tasks[group.task_id].kind):
            left = [pk for pk in views[group.pk] if choice.scorer not in known.get(pk, {})]
            if left:
                questions += _asked(group, choice, task, views[group.pk], left)
    return questions


def _asked(group: Group, choice: ScorerChoice, task: TaskView, views: Mapping[int, RolloutView], left: Sequence[int]):
    sets = [tuple(views)] if judges_groups(choice.scorer) else [(pk,) for pk in left]
    options = options_of(choice, task.meta)
    return [Question(group.pk, choice.scorer, pks, tuple(views[pk] for pk in pks), task, options) for pks in sets]


def judges_groups(scorer: str) -> bool:
    return scorer in scorers.names() and scorers.find(scorer).of_group


def _task_view(task: Task) -> TaskView:
    return TaskView(task.prompt, task.answer, task.domain, task.meta)


def finished_rollouts(groups: Sequence[Group]) -> QuerySet[Rollout]:
    """What scorers judge of these groups, in its order."""
    finished = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED)
    return finished.exclude(origin=Rollout.Origin.SYNTHETIC).order_by("sample_index")


def _views(groups: Sequence[Group]) -> dict[int, dict[int, RolloutView]]:
    """By group, then by rollout."""
    found: dict[int, dict[int, RolloutView]] = defaultdict(dict)
    fields = ("pk", "group_id", "text", "turns", "completion_tokens", "stop_reason")
    for pk, group, text, turns, tokens, stop_reason in finished_rollouts(groups).values_list(*fields):
        found[group][pk] = RolloutView(text, said_by_policy(text, turns), tokens, stop_reason)
    return found


def known_values(groups: Sequence[Group]) -> dict[int, dict[str, float | None]]:
    """What machines have said of the rollouts of these groups, by rollout and scorer."""
    found: dict[int, dict[str, float | None]] = defaultdict(dict)
    said = Reward.objects.filter(rollout__group__in=groups, by=None)
    for rollout, scorer, value in said.values_list("rollout_id", "scorer", "value"):
        found[rollout][scorer] = value
    return found


@unit_of_work
def record_verdicts(groups: Sequence[Group], answers: Sequence[Answered]) -> list[Group]:
    """Write the verdicts and hand the groups on: to people when the run asks them, else to the refiner.

    Of groups that are no longer ours nothing is written. Returns the groups handed on.
    """
    asked = Group.objects.filter(IN_FORCE, pk__in=[group.pk for group in groups])
    fences = {group.pk: group.fence for group in lock(asked)}
    ours = [group for group in groups if fences.get(group.pk) == group.fence]
    held = {group.pk for group in ours}
    Reward.objects.bulk_create(
        (reward for answer in answers if answer.question.group_id in held for reward in _rewards(answer)), ignore_conflicts=True
    )
    count_used(answers, ours)
    domains = dict(Task.objects.filter(pk__in={group.task_id for group in ours}).values_list("pk", "domain"))
    for group in ours:
        group.state = Group.State.SCORING  # as it was claimed: an earlier attempt has changed it
        hand_on(group, domains[group.task_id])
    return ours


def count_used(answers: Sequence[Answered], groups: Sequence[Group]) -> None:
    """What answers about these groups used is their runs', as the worker counts it that holds them; in the caller's transaction."""
    homes = {group.pk: (group.run_id, group.lease_owner) for group in groups}
    found: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for answer in answers:
        if answer.used and (home := homes.get(answer.question.group_id)):
            found[home].update(answer.used)
    Usage.add_all(found)


def _rewards(answer: Answered) -> list[Reward]:
    source = source_of(answer.question.scorer)
    return [Reward(rollout_id=pk, source=source, **word) for pk, word in words_of(answer)]


def source_of(scorer: str) -> str:
    return Reward.Source.MODEL if learned.is_learned(scorer) else Reward.Source.RULE


def words_of(answer: Answered) -> Iterator[tuple[int, dict]]:
    """What is kept of an answer: for each rollout, by the fields of `apps.rewards.models.rewards.Word`."""
    asked = answer.question
    version = scorers.find(asked.scorer).version if asked.scorer in scorers.names() else 1
    told = {"scorer": asked.scorer, "version": version, "options": asked.options, "seconds": answer.seconds}
    for pk, verdict in zip(asked.rollout_ids, answer.verdicts, strict=True):
        reason = (verdict.reason or "no reason given")[:300]
        yield pk, {**told, "value": verdict.value, "reason": reason, "details": verdict.details}


def hand_on(group: Group, domain: str | None = None) -> None:
    """To people, where they are asked about tasks of this domain (of the group's own unless told), else to the refiner."""
    people = group.run.settings.people
    if people.asks_about(group.task.domain if domain is None else domain):
        group.move(Group.State.WAITING, deadline_at=after(people.deadline_s))
    else:
        group.move(Group.State.JUDGED, judged_at=Now())
