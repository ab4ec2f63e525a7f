"""Metrics of a step from database rows: rewards, staleness, lengths and throughput.

Also describes what a trainer waits for.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from django.db import connection
from django.db.models import Avg, Count, Max, Min, Q, QuerySet, StdDev, Value
from django.db.models.functions import Now

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.buffer.models import Experience, experts_missing, groups_again, stragglers
from apps.feedback.models import Rating
from apps.rewards.combining import Judgement, full_reward, machine_parts
from apps.rewards.judgements import load_judgements
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep, Worker
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind, find_judged_kind
from workers.trainer.report import OVERFLOW, SKIPS_IN_A_ROW
from workers.waiting_reasons import WAITS_FOR_ENGINE, WAITS_FOR_WEIGHTS

ROUNDING = 1e-6
HOUR = timedelta(hours=1)
LATELY = timedelta(minutes=10)
LOOKED_AT = 1_000
STAGES = ("people", "judging", "sampling")
NOT_SAMPLING = (Group.State.SCORING, Group.State.WAITING, Group.State.JUDGED)
ON_THE_WAY = {
    Group.State.SAMPLING: "being sampled",
    Group.State.SCORING: "being scored",
    Group.State.WAITING: "waiting for people",
    Group.State.JUDGED: "to be refined",
}


def compute_batch_metrics(
    run: Run, step: TrainStep, batch: Sequence[Experience]
) -> dict[str, float]:
    """Return means over the experiences that the policy sampled.

    - `staleness`: in weight versions.
    - `completion_length`: in tokens.
    - `rows`: all rows, also experts'.
    - `people_share`, `simulated_share`: of the rollouts, those judged by a person, and those judged
      by the simulated rater.
    - `reward_human`, `reward_simulated`: of people only, and of the simulated rater only.
    - `reward_rule`, `reward_model`, `reward_environment`: the parts of `reward_machine`, weighted
      as the run combines them.

    Experiences that a step takes again count only in `rows` and the staleness. The other means
    counted them in their first step.
    """
    rows = len(batch)
    usual = [experience for experience in batch if experience.kind == Experience.Kind.USUAL]
    batch = _for_the_first_time(usual)
    rewards = [_reward(experience) for experience in batch]
    kinds = _kinds(batch)
    full = {group: full_reward(run.settings, kind) for group, kind in kinds.items()}
    judgements = load_judgements([experience.rollout_id for experience in batch])
    staleness = [step.version - experience.weight_version for experience in usual]
    metrics = {
        "reward_mean": statistics.fmean(rewards),
        "reward_std": statistics.pstdev(rewards),
        "success": statistics.fmean(_reward(row) >= full[row.group_id] - ROUNDING for row in batch),
        "staleness": statistics.fmean(staleness),
        "staleness_max": max(staleness),
        "completion_length": statistics.fmean(
            experience.rollout.completion_tokens for experience in batch
        ),
        "rows": rows,
        "expert_rows": rows - len(usual),
        **_peoples_rewards(batch, judgements),
        **_machine_rewards(run, batch, kinds, judgements),
    }
    if run.settings.groups_again_per_step:
        metrics["rows_again"] = sum(experience.is_again for experience in usual)
    return metrics


def _reward(experience: Experience) -> float:
    """Return the reward, which every experience that was sampled has."""
    assert experience.reward is not None
    return experience.reward


def _peoples_rewards(
    batch: Sequence[Experience], judgements: Mapping[int, Sequence[Judgement]]
) -> dict[str, float]:
    """Return the mean rewards by people and by the simulated rater, and the shares they judged."""
    if not any(judgement.is_human for judged in judgements.values() for judgement in judged):
        return {"people_share": 0.0, "simulated_share": 0.0}
    rewards = Reward.objects.filter(
        rollout__in=[experience.rollout_id for experience in batch], is_current=True
    )
    # Single judgements; rewards that combine several raters would count them twice.
    people = Q(source=Reward.Source.HUMAN, by__is_simulated=False)
    simulated = Q(source=Reward.Source.HUMAN, by__is_simulated=True)
    size = Value(float(len(batch)))
    values = rewards.aggregate(
        reward_human=Avg("value", filter=people),
        reward_human_std=StdDev("value", filter=people),
        reward_simulated=Avg("value", filter=simulated),
        people_share=Count("rollout", filter=people, distinct=True) / size,
        simulated_share=Count("rollout", filter=simulated, distinct=True) / size,
    )
    return {name: value for name, value in values.items() if value is not None}


def _for_the_first_time(usual: Sequence[Experience]) -> Sequence[Experience]:
    """Return the experiences that no earlier step took, or all of them if there are none.

    Only a step that replays another run's step can consist of reused experiences alone.
    """
    return [experience for experience in usual if not experience.is_again] or usual


def _kinds(batch: Sequence[Experience]) -> dict[int, Kind]:
    """Return the kind of each group's task, by group id: its domain and the scorers it names."""
    rows = _told_kinds(list({experience.group_id for experience in batch}))
    return {pk: find_judged_kind(domain, judged_by) for pk, domain, judged_by in rows}


@compiled_query
def _told_kinds(groups: list[int]) -> QuerySet[Group, tuple[int, str, Any]]:
    rows = Group.objects.filter(EqualsAny("pk", groups))
    return rows.values_list("pk", "task__domain", f"task__meta__{JUDGED_BY}")


def _machine_rewards(
    run: Run,
    batch: Sequence[Experience],
    kinds: Mapping[int, Kind],
    judgements: Mapping[int, Sequence[Judgement]],
) -> dict[str, float]:
    """Return the means of the machine reward and of each source's share.

    Only rollouts that have such a part are counted.
    """
    judges = {kind: run.settings.judges_of(kind) for kind in set(kinds.values())}
    values_by_name = defaultdict(list)
    for experience in batch:
        own_judgements = judgements.get(experience.rollout_id, [])
        if parts := machine_parts(own_judgements, judges[kinds[experience.group_id]]):
            for name, value in {**parts, "machine": math.fsum(parts.values())}.items():
                values_by_name[f"reward_{name}"].append(value)
    return {name: statistics.fmean(values) for name, values in values_by_name.items()}


def skips_in_a_row(run: Run) -> int:
    """Count how many of the run's newest committed steps were skipped in a row.

    Counting stops at the number at which a run pauses.
    """
    committed = run.steps.filter(state=TrainStep.State.COMMITTED).exclude(skipped=OVERFLOW)
    newest = committed.order_by("-number").values_list("skipped", flat=True)
    return sum(1 for _ in takewhile(bool, newest[:SKIPS_IN_A_ROW]))


def of_time(
    run: Run, batch: Sequence[Experience], seconds: float, waited: float, since: int
) -> dict[str, float]:
    """Return the step's seconds, its waiting time, and the rates of the other workers meanwhile.

    `since` is the result of `first_open` at the previous step; it limits the rows that are counted,
    so that the query does not slow down as the run grows.
    """
    previous, waiting, counts = _done_since_the_last_step(run, since)
    metrics = {"step_seconds": seconds, "wait_seconds": waited, **waiting, **of_people(run)}
    if previous and seconds > 0:
        counts["train_tokens"] = sum(experience.rollout.completion_tokens for experience in batch)
        metrics |= {f"{name}_per_s": (count or 0) / seconds for name, count in counts.items()}
        metrics |= _dead_groups(run, since, previous)
    return metrics


def of_people(run: Run) -> dict[str, float]:
    """Return decisions an hour, by people and by simulated raters, over the last minutes.

    A single step is too short for a rate. At most LOOKED_AT decisions are counted; if there are
    more, the true rate is higher.
    """
    if not run.settings.people.per_group:
        return {}
    newest = (
        Rating.objects.filter(run=run, is_withdrawn=False).order_by("-pk").values("pk")[:LOOKED_AT]
    )
    lately = Rating.objects.filter(pk__in=newest, at__gte=Now() - LATELY).aggregate(
        people=Count("pk", filter=Q(rater__is_simulated=False)),
        simulated=Count("pk", filter=Q(rater__is_simulated=True)),
    )
    return {f"{who}_per_h": count * (HOUR / LATELY) for who, count in lately.items()}


def of_buffer(run: Run) -> dict[str, int]:
    """Return how many groups are ready for the trainer, and how many will follow.

    Those that will follow are being sampled or judged, or wait for people.
    """
    ready = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    return {
        "groups_ready": ready.aggregate(n=Count("group", distinct=True))["n"],
        "groups_under_way": Group.objects.filter(run=run, state__in=ON_THE_WAY).count(),
    }


def first_open(run: Run) -> int:
    """Return the id of the run's oldest open group, or of its newest if none is open.

    Every group that closes from now on is that one or a later one.
    """
    drawn = Group.objects.filter(run=run, draw_index__isnull=False)
    oldest = drawn.filter(state__in=Group.OPEN).aggregate(pk=Min("pk"))["pk"]
    return oldest or drawn.order_by("-draw_index").values_list("pk", flat=True).first() or 0


DONE = """
    WITH before AS (
        SELECT coalesce(max(committed_at), %(started)s) AS at FROM runs_trainstep
            WHERE run_id = %(run)s AND state = 'committed'),
    done AS (
        SELECT count(*) FILTER (WHERE judged_at > before.at) AS judged,
            count(*) FILTER (WHERE closed_at > before.at) AS refined
        FROM rollouts_group, before WHERE run_id = %(run)s AND id >= %(since)s)
    SELECT before.at, done.judged, done.refined,
        (SELECT count(DISTINCT group_id) FROM buffer_experience
            WHERE run_id = %(run)s AND kind = 'usual' AND state = 'ready'),
        (SELECT count(*) FROM rollouts_group
            WHERE run_id = %(run)s AND state = ANY(%(under_way)s)),
        (SELECT sum(completion_tokens) FROM rollouts_rollout
            WHERE run_id = %(run)s AND finished_at > before.at AND id >= coalesce(
                (SELECT min(id) FROM rollouts_rollout WHERE group_id = %(since)s), 0))
    FROM before, done"""


def _done_since_the_last_step(
    run: Run, since: int
) -> tuple[datetime | None, dict[str, int], dict[str, int | None]]:
    """Return when the last step was committed, what waits for the next, and what was done since.

    `groups_ready` wait for the trainer; `groups_under_way` are being sampled or judged, or wait for
    people. Done are the tokens sampled, and the groups judged and refined, of the group `since` and
    later ones. One statement, in the transaction that commits the step.
    """
    facts = {
        "run": run.pk,
        "since": since,
        "started": run.started_at,
        "under_way": [state.value for state in ON_THE_WAY],
    }
    with connection.cursor() as cursor:
        cursor.execute(DONE, facts)
        previous, judged, refined, ready, under_way, tokens = cursor.fetchone()
    waiting = {"groups_ready": ready, "groups_under_way": under_way}
    return previous, waiting, {"explore_tokens": tokens, "judged": judged, "refined": refined}


def _dead_groups(run: Run, since: int, previous: datetime) -> dict[str, float]:
    """Return the share of the groups closed since `previous` whose rewards were all equal.

    Nothing is learned from such groups, whether an operator dropped them or not. Only rewards with
    a weight are compared, and groups without any are not counted.
    """
    counts = [choice.scorer for choice in run.settings.rewards if choice.weight]
    ranges = _reward_ranges(run.pk, since, previous, counts)
    judged = {group for group, *_ in ranges}
    alive = {group for group, _, low, high in ranges if high - low > ROUNDING}
    return {"dead_groups": 1 - len(alive) / len(judged)} if judged else {}


@compiled_query
def _reward_ranges(
    run: int, since: int, previous: datetime, scorers: list[str]
) -> QuerySet[Reward, tuple[int, str, float, float]]:
    """Return the lowest and highest reward of each scorer in each group closed since then."""
    closed = Group.objects.filter(run=run, pk__gte=since, closed_at__gt=previous)
    rewards = Reward.objects.filter(
        Q(source=Reward.Source.HUMAN) | EqualsAny("scorer", scorers),
        rollout__group__in=closed.order_by("-pk").values("pk")[:LOOKED_AT],
        is_current=True,
        value__isnull=False,
    )
    by_scorer = rewards.values_list("rollout__group", "scorer")
    return by_scorer.annotate(low=Min("value"), high=Max("value"))


def starving(run: Run) -> str:
    """Return what the trainer waits for: "people", "judging" or "sampling"."""
    open_groups = dict(
        Group.objects.filter(run=run, state__in=ON_THE_WAY)
        .order_by()
        .values_list("state")
        .annotate(n=Count("pk"))
    )
    if open_groups.get(Group.State.WAITING):
        return "people"
    judging = open_groups.get(Group.State.SCORING, 0) + open_groups.get(Group.State.JUDGED, 0)
    return "judging" if judging > open_groups.get(Group.State.SAMPLING, 0) else "sampling"


def _why_nothing_is_sampled(run: Run) -> str:
    """Return why no explorer samples for the run; "" if one may be sampling."""
    explorers = Worker.objects.filter(role=Worker.Role.EXPLORER, stopped_at=None)
    reports = list(explorers.values_list("for_runs", flat=True))
    if not reports:
        return (
            "" if run.groups.filter(state=Group.State.SAMPLING).exists() else "no explorer is alive"
        )
    states = [report.get(str(run.pk), "") for report in reports]
    waits = [state for state in states if state.startswith((WAITS_FOR_ENGINE, WAITS_FOR_WEIGHTS))]
    return waits[0] if waits and not any(state for state in states if state not in waits) else ""


def describe_missing_groups(run: Run) -> str:
    """Describe what the run waits for: the missing groups, and the state of those in progress."""
    usual = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    ready = usual.aggregate(n=Count("group", distinct=True))["n"]
    needed = run.settings.groups_per_step - (
        len(groups_again(run)) if ready < run.settings.groups_per_step else 0
    )
    if ready >= needed and (experts := experts_missing(run)):
        return f"{experts} more expert answers (`manage.py demonstrations import`)"
    if ready >= needed and (late := stragglers(run)):
        return f"{late} delayed group{'s' if late > 1 else ''}, too old for later steps"
    missing = max(1, needed - ready)
    open_groups = dict(
        Group.objects.filter(run=run, state__in=ON_THE_WAY)
        .order_by()
        .values_list("state")
        .annotate(n=Count("pk"))
    )
    on_the_way = ", ".join(
        f"{open_groups[state]} {words}"
        for state, words in ON_THE_WAY.items()
        if state in open_groups
    )
    if not any(state in open_groups for state in NOT_SAMPLING):
        on_the_way = _why_nothing_is_sampled(run) or on_the_way
    return f"{missing} more group{'s' if missing > 1 else ''} ({on_the_way or 'none in progress'})"
