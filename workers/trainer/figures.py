"""The figures of a step that rows tell: rewards, staleness, lengths, throughput; and what a trainer waits for."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from django.db.models import Avg, Count, Max, Min, Q, StdDev, Sum, Value
from django.db.models.functions import Now

from apps.buffer.models import Experience, experts_missing, groups_again, stragglers
from apps.feedback.models import Rating
from apps.rewards.combining import full_reward, machine_parts
from apps.rewards.judgements import judgements_of
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep, Worker
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind, kind_of
from workers.seats import WAITS_FOR_ENGINE, WAITS_FOR_WEIGHTS
from workers.trainer.report import OVERFLOW, SKIPS_IN_A_ROW

ROUNDING = 1e-6
HOUR, LATELY = timedelta(hours=1), timedelta(minutes=10)
LOOKED_AT = 1_000
STATIONS = ("people", "judging", "sampling")
NOT_SAMPLING = (Group.State.SCORING, Group.State.WAITING, Group.State.JUDGED)
ON_THE_WAY = {
    Group.State.SAMPLING: "being sampled",
    Group.State.SCORING: "being scored",
    Group.State.WAITING: "waiting for people",
    Group.State.JUDGED: "to be refined",
}


def of_batch(run: Run, step: TrainStep, batch: Sequence[Experience]) -> dict[str, float]:
    """Means over what the policy sampled; `staleness` in weight versions, `completion_length` in tokens. `rows`: all.
    `people_share`: of the rollouts, those that a person judged; `simulated_share`: those that the simulated rater
    judged. `reward_human` is of people alone, `reward_simulated` of the simulated rater alone. `reward_rule`,
    `reward_model`, `reward_environment`: what each gives of `reward_machine`, weighted as the run combines them.

    What an update takes again is stale and fills rows, and was in the other means when it came first.
    """
    rows, usual = len(batch), [experience for experience in batch if experience.kind == Experience.Kind.USUAL]
    batch = _for_the_first_time(usual)
    rewards = [experience.reward for experience in batch]
    kinds = _kinds(batch)
    full = {group: full_reward(run.settings, kind) for group, kind in kinds.items()}
    said = Reward.objects.filter(rollout__in=[experience.rollout_id for experience in batch], is_current=True)
    # One by one: what raters say together is made of these.
    people = Q(source=Reward.Source.HUMAN, by__is_simulated=False)
    simulated = Q(source=Reward.Source.HUMAN, by__is_simulated=True)
    size = Value(float(len(batch)))
    said = said.aggregate(
        reward_human=Avg("value", filter=people),
        reward_human_std=StdDev("value", filter=people),
        reward_simulated=Avg("value", filter=simulated),
        people_share=Count("rollout", filter=people, distinct=True) / size,
        simulated_share=Count("rollout", filter=simulated, distinct=True) / size,
    )
    return {
        "reward_mean": statistics.fmean(rewards),
        "reward_std": statistics.pstdev(rewards),
        "success": statistics.fmean(one.reward >= full[one.group_id] - ROUNDING for one in batch),
        "staleness": statistics.fmean(step.version - experience.weight_version for experience in usual),
        "staleness_max": max(step.version - experience.weight_version for experience in usual),
        "completion_length": statistics.fmean(experience.rollout.completion_tokens for experience in batch),
        "rows": rows,
        "expert_rows": rows - len(usual),
        **({"rows_again": sum(experience.is_again for experience in usual)} if run.settings.groups_again_per_step else {}),
        **{name: value for name, value in said.items() if value is not None},
        **_machine_rewards(run, batch, kinds),
    }


def _for_the_first_time(usual: Sequence[Experience]) -> Sequence[Experience]:
    """Those that no update took before; all, in an update that replays another's where only such are left."""
    return [experience for experience in usual if not experience.is_again] or usual


def _kinds(batch: Sequence[Experience]) -> dict[int, Kind]:
    """By group, the kind of its task: what says who judges it, and what a rollout could get at most."""
    groups = Group.objects.filter(pk__in={experience.group_id for experience in batch})
    rows = groups.values_list("pk", "task__domain", f"task__meta__{JUDGED_BY}")
    return {pk: kind_of(domain, judged_by) for pk, domain, judged_by in rows}


def _machine_rewards(run: Run, batch: Sequence[Experience], kinds: Mapping[int, Kind]) -> dict[str, float]:
    """Means of what machines gave, and of each source's part of it, over the rollouts that have such a part."""
    judges = {kind: run.settings.judges_of(kind) for kind in set(kinds.values())}
    said, given = judgements_of([experience.rollout_id for experience in batch]), defaultdict(list)
    for experience in batch:
        if parts := machine_parts(said[experience.rollout_id], judges[kinds[experience.group_id]]):
            for name, value in {**parts, "machine": math.fsum(parts.values())}.items():
                given[f"reward_{name}"].append(value)
    return {name: statistics.fmean(values) for name, values in given.items()}


def skips_in_a_row(run: Run) -> int:
    """How many of the run's newest committed updates were skipped, one after the other; counted up to where a run pauses."""
    made = run.steps.filter(state=TrainStep.State.COMMITTED).exclude(skipped=OVERFLOW)
    newest = made.order_by("-number").values_list("skipped", flat=True)
    return sum(1 for _ in takewhile(bool, newest[:SKIPS_IN_A_ROW]))


def of_time(run: Run, batch: Sequence[Experience], seconds: float, waited: float, since: int) -> dict[str, float]:
    """Seconds since the step before, the part of them spent waiting, and what the other stations did meanwhile.

    `since`: what `first_open` said at that step, so that no answer costs more as the run grows.
    """
    previous = run.steps.filter(state=TrainStep.State.COMMITTED).aggregate(at=Max("committed_at"))["at"] or run.started_at
    figures = {"step_seconds": seconds, "wait_seconds": waited, **of_buffer(run), **of_people(run)}
    if previous and seconds > 0:
        done = {**_done_since(run, since, previous), "train_tokens": sum(each.rollout.completion_tokens for each in batch)}
        figures |= {f"{name}_per_s": (count or 0) / seconds for name, count in done.items()}
        figures |= _dead_groups(run, since, previous)
    return figures


def of_people(run: Run) -> dict[str, float]:
    """Decisions an hour, of people and of those simulated, in the last minutes: a single step is too short to count them in.

    At most LOOKED_AT of them are counted: beyond that people are faster than this says.
    """
    if not run.settings.people.per_group:
        return {}
    newest = Rating.objects.filter(run=run, is_withdrawn=False).order_by("-pk").values("pk")[:LOOKED_AT]
    lately = Rating.objects.filter(pk__in=newest, at__gte=Now() - LATELY).aggregate(
        people=Count("pk", filter=Q(rater__is_simulated=False)), simulated=Count("pk", filter=Q(rater__is_simulated=True))
    )
    return {f"{who}_per_h": count * (HOUR / LATELY) for who, count in lately.items()}


def of_buffer(run: Run) -> dict[str, int]:
    """Groups that are ready for the trainer, and those on their way to it: being sampled or judged, or waiting for people."""
    ready = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    return {
        "groups_ready": ready.aggregate(n=Count("group", distinct=True))["n"],
        "groups_under_way": Group.objects.filter(run=run, state__in=ON_THE_WAY).count(),
    }


def first_open(run: Run) -> int:
    """The id of its oldest open group, or of its newest where none is open: what closes from now on is that one or a later one."""
    drawn = Group.objects.filter(run=run, draw_index__isnull=False)
    oldest = drawn.filter(state__in=Group.OPEN).aggregate(pk=Min("pk"))["pk"]
    return oldest or drawn.order_by("-draw_index").values_list("pk", flat=True).first() or 0


def _done_since(run: Run, since: int, previous: datetime) -> dict[str, int | None]:
    """Tokens sampled, groups judged and groups refined since then: of this group and later ones."""
    first = Rollout.objects.filter(group=since).aggregate(pk=Min("pk"))["pk"] or 0
    rollouts = Rollout.objects.filter(run=run, pk__gte=first, finished_at__gt=previous)
    groups = Group.objects.filter(run=run, pk__gte=since).aggregate(
        judged=Count("pk", filter=Q(judged_at__gt=previous)), refined=Count("pk", filter=Q(closed_at__gt=previous))
    )
    return {"explore_tokens": rollouts.aggregate(n=Sum("completion_tokens"))["n"], **groups}


def _dead_groups(run: Run, since: int, previous: datetime) -> dict[str, float]:
    """The share of the groups closed since then in which nobody whose word counts told the answers apart: nothing is learned
    from those, whether an operator dropped them or not. Groups that nobody judged are not asked about.
    """
    closed = Group.objects.filter(run=run, pk__gte=since, closed_at__gt=previous).order_by("-pk").values("pk")[:LOOKED_AT]
    counts = [choice.scorer for choice in run.settings.rewards if choice.weight]
    said = Reward.objects.filter(
        Q(source=Reward.Source.HUMAN) | Q(scorer__in=counts), rollout__group__in=closed, is_current=True, value__isnull=False
    )
    told = said.values_list("rollout__group", "scorer").annotate(low=Min("value"), high=Max("value"))
    judged, alive = {group for group, *_ in told}, {group for group, _, low, high in told if high - low > ROUNDING}
    return {"dead_groups": 1 - len(alive) / len(judged)} if judged else {}


def starving(run: Run) -> str:
    """The station that the trainer waits for: people, judging or sampling."""
    open_groups = dict(Group.objects.filter(run=run, state__in=ON_THE_WAY).order_by().values_list("state").annotate(n=Count("pk")))
    if open_groups.get(Group.State.WAITING):
        return "people"
    judging = open_groups.get(Group.State.SCORING, 0) + open_groups.get(Group.State.JUDGED, 0)
    return "judging" if judging > open_groups.get(Group.State.SAMPLING, 0) else "sampling"


def _why_nothing_is_sampled(run: Run) -> str:
    """Empty where an explorer may be at it."""
    explorers = Worker.objects.filter(role=Worker.Role.EXPLORER, stopped_at=None)
    told = list(explorers.values_list("for_runs", flat=True))
    if not told:
        return "" if run.groups.filter(state=Group.State.SAMPLING).exists() else "no explorer is alive"
    words = [said.get(str(run.pk), "") for said in told]
    waits = [each for each in words if each.startswith((WAITS_FOR_ENGINE, WAITS_FOR_WEIGHTS))]
    return waits[0] if waits and not any(each for each in words if each not in waits) else ""


def cause_of_waiting(run: Run) -> str:
    """What follows "waiting for": how many groups are missing and where those under way stand."""
    usual = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    ready = usual.aggregate(n=Count("group", distinct=True))["n"]
    wanted = run.settings.groups_per_step - (len(groups_again(run)) if ready < run.settings.groups_per_step else 0)
    if ready >= wanted and (experts := experts_missing(run)):
        return f"{experts} more expert answers (`manage.py demonstrations import`)"
    if ready >= wanted and (late := stragglers(run)):
        return f"{late} straggling group{'s' if late > 1 else ''}, too old for the updates after this one"
    missing = max(1, wanted - ready)
    open_groups = dict(Group.objects.filter(run=run, state__in=ON_THE_WAY).order_by().values_list("state").annotate(n=Count("pk")))
    on_the_way = ", ".join(f"{open_groups[state]} {words}" for state, words in ON_THE_WAY.items() if state in open_groups)
    if not any(state in open_groups for state in NOT_SAMPLING):
        on_the_way = _why_nothing_is_sampled(run) or on_the_way
    return f"{missing} more group{'s' if missing > 1 else ''} ({on_the_way or 'none is under way'})"
