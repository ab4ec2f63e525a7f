"""The batch of one step: its best and worst rollouts, and those whose reward changed most."""

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field

from django.db.models import Avg, OuterRef, Subquery

from apps.accounts.models import User
from apps.buffer.models import Experience, StepItem
from apps.dashboard.rollout_rows import build_rollout_rows, with_judgements
from apps.rewards.combining_rows import combined_so_far
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep

SHOWN = 3  # rollouts in each list
SAME = 1e-6  # rewards that differ by less are equal


@dataclass(frozen=True)
class BatchRow:
    """A rollout of a batch that was sampled for training, not an expert row."""

    rollout: int
    group: int
    reward: float
    version: int


@dataclass(frozen=True)
class Batch:
    """What a step trained on; `rollouts` have a reward, `experts` may have none.

    `left_out` maps the reasons of rows that taught the step nothing to their number.
    """

    rollouts: Sequence[BatchRow]
    experts: int = 0
    repeated: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def groups(self) -> list[int]:
        return list(dict.fromkeys(row.group for row in self.rollouts))

    @property
    def mean(self) -> float | None:
        return statistics.fmean(row.reward for row in self.rollouts) if self.rollouts else None

    @property
    def is_flat(self) -> bool:
        """Tell whether all rewards are equal, so that no rollout is the best."""
        rewards = [row.reward for row in self.rollouts]
        return bool(rewards) and max(rewards) - min(rewards) < SAME

    @property
    def versions(self) -> tuple[int, int] | None:
        """Return the lowest and highest weight version that sampled the rollouts."""
        versions = [row.version for row in self.rollouts]
        return (min(versions), max(versions)) if versions else None


@dataclass(frozen=True)
class Attempt:
    """The attempt at a task before the one of this step, and the mean of its rewards."""

    group: int
    mean: float


@dataclass(frozen=True)
class StepRollouts:
    """Rows as lists of rollouts show them (apps.dashboard.rollout_rows).

    Rows of `changed` also have `attempt` and `change`.
    """

    best: list[dict]
    worst: list[dict]
    changed: list[dict]


def batch_of_step(step: TrainStep) -> Batch:
    """Return what the step trained on, in one query, without texts."""
    items = StepItem.objects.filter(step=step).order_by("position")
    rows = []
    experts = 0
    repeated = 0
    left_out: dict[str, int] = defaultdict(int)
    columns = ("rollout_id", "group_id", "reward", "weight_version", "kind")
    paths = [f"experience__{column}" for column in columns]
    for rollout, group, reward, version, kind, is_again, reason in items.values_list(
        *paths, "is_again", "left_out"
    ):
        if kind == Experience.Kind.EXPERT:
            experts += 1
        else:
            rows.append(BatchRow(rollout, group, reward, version))
        repeated += is_again
        if reason:
            left_out[reason] += 1
    return Batch(rows, experts, repeated, dict(left_out))


def rollouts_of_step(run: Run, batch: Batch, user: User) -> StepRollouts:
    """Return the best, the worst and the most changed rollouts of a batch.

    The number of queries does not depend on the batch or on the run. The caller checks that the
    user sees the run's rewards.
    """
    ranked = sorted(batch.rollouts, key=lambda row: (-row.reward, row.rollout))
    best = [] if batch.is_flat else ranked[:SHOWN]
    worst = [] if batch.is_flat else ranked[max(SHOWN, len(ranked) - SHOWN) :][::-1]
    earlier = previous_attempts(run, batch.groups)
    changed = _most_changed(batch.rollouts, earlier)
    row_by_rollout = {
        row["rollout"].pk: row
        for row in _rows_of([row.rollout for row in (*best, *worst, *changed)], user, run)
    }
    return StepRollouts(
        best=[row_by_rollout[row.rollout] for row in best],
        worst=[row_by_rollout[row.rollout] for row in worst],
        changed=[
            {
                **row_by_rollout[row.rollout],
                "attempt": earlier[row.group],
                "change": row.reward - earlier[row.group].mean,
            }
            for row in changed
        ],
    )


def _rows_of(rollouts: Collection[int], user: User, run: Run) -> list[dict]:
    judged = list(with_judgements(Rollout.objects.filter(pk__in=rollouts)))
    return build_rollout_rows(judged, user, {run.pk})


def _most_changed(rows: Iterable[BatchRow], earlier: dict[int, Attempt]) -> list[BatchRow]:
    """Return the rollouts furthest from the mean of the previous attempt, one of each group."""
    furthest: dict[int, tuple[float, BatchRow]] = {}
    for row in rows:
        if row.group not in earlier:
            continue
        change = abs(row.reward - earlier[row.group].mean)
        if change >= SAME and change > furthest.get(row.group, (0.0, row))[0]:
            furthest[row.group] = (change, row)
    ranked = sorted(furthest.values(), key=lambda item: (-item[0], item[1].rollout))
    return [row for _, row in ranked[:SHOWN]]


def previous_attempts(run: Run, groups: Collection[int]) -> dict[int, Attempt]:
    """Return the previous attempt at each group's task, by group, where it has rewards.

    Rewards are those at admission; of a dropped group, those that it had by then.
    """
    before = (
        Group.objects.filter(
            run=OuterRef("run"),
            task=OuterRef("task"),
            draw_index__lt=OuterRef("draw_index"),
        )
        .order_by("-draw_index")
        .values("pk")
    )
    drawn_groups = run.groups.filter(pk__in=groups, draw_index__isnull=False)
    earlier = dict(
        drawn_groups.annotate(before=Subquery(before[:1]))
        .filter(before__isnull=False)
        .values_list("pk", "before")
    )
    means = _means(run, set(earlier.values()))
    return {
        group: Attempt(before, means[before])
        for group, before in earlier.items()
        if before in means
    }


def _means(run: Run, groups: Set[int]) -> dict[int, float]:
    """Return the mean reward of each of these groups; without rewards it is absent."""
    admitted = Experience.objects.filter(group__in=groups, kind=Experience.Kind.USUAL).order_by()
    means = dict(admitted.values_list("group").annotate(mean=Avg("reward")))
    if not (dropped := groups - means.keys()):
        return means
    dropped_rewards = (
        Rollout.objects.filter(group__in=dropped, state=Rollout.State.FINISHED)
        .without_anchors()
        .annotate(so_far=combined_so_far(run.settings))
        .values_list("group", "so_far")
    )
    rewards: dict[int, list[float]] = defaultdict(list)
    for group, reward in dropped_rewards:
        if reward is not None:
            rewards[group].append(reward)
    return means | {group: statistics.fmean(values) for group, values in rewards.items()}
