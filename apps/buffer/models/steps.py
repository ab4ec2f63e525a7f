"""Steps: the experiences that each step takes, fixed when it is planned.

A planned batch is never changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, models, transaction

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.accounts.durability import commit_without_waiting
from apps.accounts.locking import retrying
from apps.buffer.credit import Credit
from apps.buffer.models.experiences import Experience
from apps.buffer.models.reading import next_groups
from apps.runs.config import RunConfig
from apps.runs.models import Run, StaleFence, TrainStep
from apps.tasksets.shuffled_draws import draw_position

# Computes the weight of each experience of a batch, by id, where it depends on the whole batch.
Crediting = Callable[[RunConfig, Sequence[Experience]], dict[int, Credit]]
NOTHING_LEFT = "the pipeline left nothing of the batch: "


@dataclass(frozen=True)
class OperatorChanges:
    """The operators' changes to a batch, by experience id.

    `credits` holds the weights that differ from the experience's own advantage, `left_out` the
    reasons for experiences that are excluded.
    """

    credits: Mapping[int, Credit]
    left_out: Mapping[int, str] = field(default_factory=dict)


# Applies operators to a batch, given the trainer's version and each weight; called within the
# transaction that plans it.
Treating = Callable[[Run, int, models.QuerySet[Experience], Mapping[int, Credit]], OperatorChanges]


class StepItem(models.Model):
    """The position of an experience in a step's batch, fixed before training and never changed."""

    step = models.ForeignKey(
        TrainStep, on_delete=models.CASCADE, related_name="items", db_index=False
    )  # the unique constraints serve look-ups
    experience = models.ForeignKey(Experience, on_delete=models.CASCADE, related_name="step_items")
    position = models.PositiveIntegerField()
    advantage = models.FloatField(
        null=True,
        help_text="Advantage in this step; NULL if it is the experience's own advantage.",
    )
    token_advantages = models.BinaryField(
        null=True, help_text="float32 per completion token, if they differ."
    )
    is_again = models.BooleanField(
        db_default=False,
        default=False,
        help_text="An earlier step had used it (experience replay). Never true for expert data.",
    )

    left_out = models.CharField(
        max_length=200,
        blank=True,
        db_default="",
        default="",
        help_text="Which operator excluded it from this step, and why.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "experience"], name="once_per_step"),
            models.UniqueConstraint(
                fields=["step", "position"], name="one_experience_per_position"
            ),
        ]
        indexes = [
            # For the page of a pipeline, newest first.
            models.Index(
                fields=["-id"], name="left_out_of_updates", condition=~models.Q(left_out="")
            ),
        ]


@retrying
def plan_step(
    run: Run, fence: int, crediting: Crediting | None = None, treating: Treating | None = None
) -> TrainStep | None:
    """Plan the batch of the run's next step: groups and expert experiences.

    Return None while too few groups are ready. If a trainer died after it planned the step, the
    step is returned unchanged. Experiences over the staleness bound are dropped first, so no plan
    contains one. `crediting` computes advantages that depend on the whole batch, and `treating`
    applies the operators. Both results are recorded with the batch. Raises StaleFence, and
    ValueError when `crediting` is needed and missing.
    """
    with run.fenced(fence) as locked:
        planned = _planned(locked.pk)
        if planned or locked.step >= locked.planned_steps:
            return planned[0] if planned else None
        version = locked.step // locked.settings.sync_interval
        Experience.objects.retire_stale(locked, version)
        groups = next_groups(locked)
        if not groups or experts_missing(locked):
            return None
        commit_without_waiting()  # `commit_step` refuses a step whose plan was lost
        return record_batch(
            locked, fence, groups, crediting, _experts(locked, locked.step + 1, groups), treating
        )


def record_batch(
    run: Run,
    fence: int,
    groups: list[int],
    crediting: Crediting | None,
    experts: list[int],
    treating: Treating | None = None,
) -> TrainStep:
    """Create the run's next step from experiences of these groups and these expert experiences.

    The groups may be ready, or trained before. A step is skipped when the operators leave none of
    its sampled experiences. The caller holds the lock on the run's row and the transaction.
    """
    version = run.step // run.settings.sync_interval
    experiences = _usable(groups)
    batch = dict(_usable_states(groups))
    credits = {}
    if run.settings.algorithm.advantage.over_batch:
        if crediting is None:
            raise ValueError(
                f"{run.settings.algorithm.advantage.name} depends on the whole batch; give"
                " `crediting`"
            )
        credits = crediting(run.settings, list(experiences.select_related("rollout__payload")))
    treated = treating(run, version, experiences, credits) if treating else OperatorChanges(credits)
    skipped = (
        NOTHING_LEFT + treated.left_out[next(iter(batch))]
        if treated.left_out.keys() >= batch.keys()
        else ""
    )
    step = TrainStep.plan(run, fence, skipped)
    again = {pk for pk, state in batch.items() if state == Experience.State.TRAINED}
    rows = (_item(pk, treated, pk in again) for pk in (*batch, *experts))
    # The placeholders of bulk_create for each value cost three times as much.
    with connection.cursor() as cursor:
        columns = map(list, zip(*rows, strict=True))
        cursor.execute(PUT_ITEMS, [list(batch.keys() - again), step.pk, *columns])
    return step


def _usable(groups: list[int]) -> models.QuerySet[Experience]:
    """Return the experiences of these groups that a step may take, in the batch's order."""
    usable = (Experience.State.READY, Experience.State.TRAINED)
    usual = Experience.objects.usual().filter(EqualsAny("group", groups), state__in=usable)
    return usual.order_by("group__draw_index", "rollout__sample_index")


@compiled_query
def _usable_states(groups: list[int]) -> models.QuerySet[Experience, tuple[int, str]]:
    return _usable(groups).values_list("pk", "state")


@compiled_query
def _planned(run: int) -> models.QuerySet[TrainStep]:
    return TrainStep.objects.filter(run=run, state=TrainStep.State.PLANNED).order_by("pk")[:1]


def _item(
    experience: int, treated: OperatorChanges, is_again: bool
) -> tuple[int, float | None, bytes | None, bool, str]:
    credit = treated.credits.get(experience)
    counts = (credit.advantage, credit.packed) if credit else (None, None)
    return experience, *counts, is_again, treated.left_out.get(experience, "")[:200]


PUT_ITEMS = """
    WITH claimed AS (
        UPDATE buffer_experience SET state = 'claimed' WHERE id = ANY (%s::bigint[]))
    INSERT INTO buffer_stepitem (step_id, experience_id, advantage, token_advantages, is_again,
        left_out, position)
    SELECT %s, experience, advantage, tokens, is_again, left_out, place - 1
    FROM unnest(%s::bigint[], %s::float8[], %s::bytea[], %s::boolean[], %s::text[])
        WITH ORDINALITY AS t(experience, advantage, tokens, is_again, left_out, place)"""


def experts_missing(run: Run) -> int:
    """Return how many expert experiences the run still needs for the expert share of its batches.

    This is 0 for runs whose expert answers arrive during training.
    """
    if not run.settings.expert_rows_per_step:
        return 0
    expert = run.settings.algorithm.expert
    # Rewrites arrive while the run learns: it takes those that exist.
    asks = run.settings.people.schedule
    # A group without a shown answer learns without one.
    if expert.source == "same_prompt" or (asks and asks.rewrites):
        return 0
    if run.settings.makes_experts:  # its own best answers arrive while it learns, too
        return 0
    return max(
        0, run.settings.expert_rows_per_step - Experience.objects.expert().filter(run=run).count()
    )


def _experts(run: Run, number: int, groups: list[int]) -> list[int]:
    """Return the expert experiences of a step, all different.

    They are read in sequence from the run's experts, which are shuffled by a seed for each epoch.
    """
    plan = run.settings
    if not plan.expert_rows_per_step:
        return []
    experts = Experience.objects.expert().filter(run=run, state=Experience.State.READY)
    if plan.algorithm.expert.source == "same_prompt":
        experts = experts.filter(group__task__in=run.groups.filter(pk__in=groups).values("task"))
    expert_ids = list(experts.order_by("pk").values_list("pk", flat=True))
    expert_rows = min(plan.expert_rows_per_step, len(expert_ids))
    draw = (number - 1) * plan.expert_rows_per_step
    chosen: dict[int, None] = {}
    while len(chosen) < expert_rows:  # within two epochs every expert occurs at least once
        chosen[expert_ids[draw_position(draw, len(expert_ids), plan.seed)]] = None
        draw += 1
    return list(chosen)


def commit_step(run: Run, step: TrainStep, fence: int, *, skipped: str = "") -> None:
    """Mark the step as committed and its experiences as trained, and advance the run by one step.

    Call it inside `run.fenced(fence)`. Raises StaleFence if the step is not planned (any more): its
    plan may have been lost with the database's last moments (`commit_without_waiting`).
    """
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        facts: list[Any] = [run.pk, step.pk, step.number, step.fence, fence, skipped[:200]]
        cursor.execute(COMMIT, facts)
        if not cursor.rowcount:
            raise StaleFence(f"step {step.number} of run {run.slug} is not planned")


# One statement: each part reads the items as they are, and only if the step was planned.
COMMIT = """
    WITH told AS (
        SELECT %s::bigint AS run, %s::bigint AS step, %s::int AS number, %s::bigint AS planned_by,
            %s::bigint AS fence, %s::text AS skipped),
    committed AS (
        UPDATE runs_trainstep step
        SET state = 'committed', committed_at = statement_timestamp(), fence = told.fence,
            seconds = extract(epoch FROM statement_timestamp() - planned_at),
            skipped = told.skipped
        FROM told
        WHERE step.id = told.step AND step.run_id = told.run AND step.number = told.number
            AND step.fence = told.planned_by AND step.state = 'planned'
        RETURNING step.id, step.run_id, step.number),
    items AS MATERIALIZED (
        SELECT one.id, one.group_id, one.kind, item.is_again
        FROM committed
        JOIN buffer_stepitem item ON item.step_id = committed.id
        JOIN buffer_experience one ON one.id = item.experience_id),
    trained AS (
        UPDATE buffer_experience one
        SET uses = uses + 1,
            state = CASE WHEN one.kind = 'expert' THEN one.state ELSE 'trained' END
        FROM items WHERE one.id = items.id)
    UPDATE runs_run run
    SET step = committed.number,
        groups_again = groups_again + taken.again,
        experiences_trained = experiences_trained + taken.first
    FROM committed, (
        SELECT count(DISTINCT group_id) FILTER (WHERE is_again) AS again,
            count(*) FILTER (WHERE kind = 'usual' AND NOT is_again) AS first
        FROM items) taken
    WHERE run.id = committed.run_id"""
