"""Rollouts: their text, their tokens, and how they ended."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db import connection, models
from django.db.models import Q
from django.utils.functional import cached_property

from apps.accounts.models import User
from apps.accounts.public_text import ReasonField
from apps.rollouts.payload import ArraysReleased, Tokens, pack, unpack_payload
from apps.rollouts.turns import Turn, store_turns
from apps.runs.models import Run


@dataclass(frozen=True)
class Outcome:
    """The result of one rollout.

    `tokens` is None when nothing usable came (an infrastructure failure).
    """

    rollout_id: int
    tokens: Tokens | None
    text: str
    stop_reason: str
    # Set if they hold more than the text: several turns, or a person's text.
    turns: tuple[Turn, ...] = ()


BEGIN = """
    INSERT INTO rollouts_rollout (run_id, group_id, sample_index, origin, state, text, stop_reason,
        turns, prompt_tokens, completion_tokens, started_at)
    SELECT %s, group_id, sample, 'policy', 'sampling', '', '', '[]', 0, 0, clock_timestamp()
    FROM unnest(%s::bigint[]) AS group_id, generate_series(0, %s - 1) AS sample
    ORDER BY group_id, sample"""


class RolloutQuerySet(models.QuerySet):
    def begin(self, run: Run, groups: Sequence[int], size: int) -> None:
        """Add `size` rollouts of the policy to each of these groups, being sampled.

        One statement that makes the rows in the database: bulk_create sends each value of each row.
        """
        with connection.cursor() as cursor:
            cursor.execute(BEGIN, [run.pk, list(groups), size])

    def visible_to(self, user: User) -> "RolloutQuerySet":
        return self.filter(run__in=Run.objects.visible_to(user))

    def without_anchors(self) -> "RolloutQuerySet":
        """Exclude anchors: replies of the base weights that are ranked beside the policy's."""
        return self.exclude(origin=Rollout.Origin.SYNTHETIC)

    def of_run(self, run: Run) -> "RolloutQuerySet":
        """Return the run's rollouts, to be ordered by `run_id` and id, which uses the run's index.

        For a plain `run = …` the planner may scan all newer rollouts of other runs, and does so for
        a large run that is over.
        """
        return self.filter(run__gte=run.pk, run__lte=run.pk)

    def newest_of(self, run: Run) -> "RolloutQuerySet":
        return self.of_run(run).order_by("run_id", "-pk")

    def newest_of_each(self, runs: Iterable[Run], count: int) -> list[int]:
        """Return the ids of the newest `count` rollouts of all these runs together, newest first.

        One query, with one index look-up per run.
        """
        queries = [self.newest_of(run).values_list("pk", flat=True)[:count] for run in runs]
        if not queries:
            return []
        ids = queries[0].union(*queries[1:], all=True)
        return sorted(ids, reverse=True)[:count]


class Rollout(models.Model):
    """One attempt at a task. Token ids are authoritative; `text` is their rendering."""

    class State(models.TextChoices):
        SAMPLING = "sampling"
        FINISHED = "finished"
        FAILED = "failed"

    class Origin(models.TextChoices):
        POLICY = "policy"
        EXPERT = "expert"
        SYNTHETIC = "synthetic"

    # Without indexes of their own: `newest_rollouts` and the unique constraint serve look-ups.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rollouts", db_index=False)
    group = models.ForeignKey(
        "rollouts.Group", on_delete=models.CASCADE, related_name="rollouts", db_index=False
    )
    sample_index = models.PositiveSmallIntegerField()
    origin = models.CharField(max_length=9, choices=Origin.choices, default=Origin.POLICY)
    state = models.CharField(max_length=8, choices=State.choices, default=State.SAMPLING)
    text = models.TextField(blank=True)
    stop_reason = ReasonField(
        max_length=200,
        blank=True,
        help_text="stop, length, abort, an intervention, or the error.",
    )
    turns = models.JSONField(
        default=list,
        help_text=(
            "Turns of the dialogue (apps.rollouts.turns); empty for a single turn of the policy."
        ),
    )
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    first_version = models.PositiveIntegerField(
        null=True, help_text="Oldest weight version that sampled one of its tokens."
    )
    last_version = models.PositiveIntegerField(null=True)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    arrays_released_at = models.DateTimeField(
        null=True, help_text="When the token arrays were deleted; the rest is kept."
    )

    # Set where the arrays of many rollouts were read in one statement (apps.buffer.models.loading).
    read_tokens: Tokens | None = None

    objects = RolloutQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["group", "origin", "sample_index"], name="one_rollout_per_sample"
            )
        ]
        indexes = [
            models.Index(fields=["run", "-id"], name="newest_rollouts"),
            models.Index(
                fields=["group"], name="rollouts_being_sampled", condition=Q(state="sampling")
            ),
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk}"

    @property
    def is_sampling(self) -> bool:
        return self.state == self.State.SAMPLING

    @property
    def tokens(self) -> Tokens:
        """Return the rollout's arrays. Raises ArraysReleased when retention deleted them."""
        if self.arrays_released_at:
            raise ArraysReleased(
                f"the arrays of {self} were deleted on {self.arrays_released_at:%Y-%m-%d} by "
                "retention"
            )
        return self.read_tokens or self.payload.tokens

    @property
    def tokens_if_kept(self) -> Tokens | None:
        """Return the rollout's arrays; None when it is not finished or retention deleted them."""
        return (
            self.tokens
            if self.state == self.State.FINISHED and not self.arrays_released_at
            else None
        )

    @classmethod
    def write_outcomes(
        cls, outcomes: Iterable[Outcome], groups: Collection[int] | None = None
    ) -> dict[int, int]:
        """Write the results and payloads of those of these rollouts that are being sampled.

        With `groups` (ids), only rollouts of these are written. Returns the group of each one that
        was written, by rollout id. The caller holds the groups' locks and the transaction.
        """
        by_id = {outcome.rollout_id: outcome for outcome in outcomes}
        if not by_id:
            return {}
        rows = [_ended_row(outcome) for outcome in by_id.values()]
        # One statement for all rows: bulk_update's CASE per column costs ten times as much.
        with connection.cursor() as cursor:
            columns = [list(column) for column in zip(*rows, strict=True)]
            cursor.execute(WRITE_OUTCOMES, [*columns, None if groups is None else list(groups)])
            written = dict(cursor.fetchall())
            # Binary COPY: as literals in a statement the bytes would be twice as many, and be read
            # back by the server.
            with cursor.copy(
                "COPY rollouts_rolloutpayload (rollout_id, data) FROM STDIN (FORMAT BINARY)"
            ) as copy:
                copy.set_types(["int8", "bytea"])
                for pk in written:
                    if (tokens := by_id[pk].tokens) is not None:
                        copy.write_row((pk, pack(tokens)))
        return written


def _ended_row(outcome: Outcome) -> tuple[object, ...]:
    """Return the columns of WRITE_OUTCOMES for a rollout that has ended."""
    tokens = outcome.tokens
    state = Rollout.State.FAILED if tokens is None else Rollout.State.FINISHED
    turns = json.dumps(store_turns(outcome.turns)) if outcome.turns else "[]"
    text_columns = (storable_output(outcome.text), outcome.stop_reason[:200], turns)
    if tokens is None:
        return outcome.rollout_id, state.value, *text_columns, 0, 0, None, None
    counts = (len(tokens.prompt_ids), len(tokens.completion_ids))
    return outcome.rollout_id, state.value, *text_columns, *counts, *tokens.versions


# Partial rollouts are deleted in the same statement: nearly always there are none.
WRITE_OUTCOMES = """
    WITH ended AS MATERIALIZED (
        SELECT o.*, r.group_id FROM unnest(
            %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::int[],
                %s::int[], %s::int[])
            AS o(id, state, text, stop_reason, turns, prompt_tokens, completion_tokens,
                first_version, last_version)
        JOIN rollouts_rollout r USING (id)
        WHERE r.state = 'sampling'
            AND r.group_id = ANY (coalesce(%s::bigint[], ARRAY[r.group_id]))),
    gone AS (DELETE FROM rollouts_partialrollout WHERE rollout_id IN (SELECT id FROM ended)),
    got_on AS (UPDATE rollouts_group SET attempts = 0 WHERE attempts > 0 AND id IN (
        SELECT group_id FROM ended WHERE state = 'finished'))
    UPDATE rollouts_rollout r
    SET state = o.state, text = o.text, stop_reason = o.stop_reason, turns = o.turns::jsonb,
        prompt_tokens = o.prompt_tokens,
        completion_tokens = o.completion_tokens, first_version = o.first_version,
            last_version = o.last_version,
        finished_at = statement_timestamp()
    FROM ended o WHERE r.id = o.id RETURNING r.id, r.group_id"""


class RolloutPayload(models.Model):
    """The rollout's arrays, apart from its narrow row: a change of state never rewrites them."""

    rollout = models.OneToOneField(
        Rollout, on_delete=models.CASCADE, primary_key=True, related_name="payload"
    )
    data = models.BinaryField()

    @cached_property
    def tokens(self) -> Tokens:
        """Return the arrays, unpacked once: a step reads them several times."""
        return unpack_payload(self.data)


def storable_output(text: str) -> str:
    """Return model output in a storable form.

    NUL becomes its visible symbol, lone surrogates the replacement character.
    """
    return text.replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")
