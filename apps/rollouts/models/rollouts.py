"""Every rollout: what was said, its tokens, and how it ended."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection, models
from django.db.models import Q

from apps.accounts.models import User
from apps.accounts.public_text import ReasonField
from apps.rollouts.payload import ArraysReleased, Tokens, pack, unpack
from apps.rollouts.turns import Turn, kept
from apps.runs.models import Run


@dataclass(frozen=True)
class Outcome:
    """How one rollout ended. `tokens` is None when nothing usable came (an infrastructure failure)."""

    rollout_id: int
    tokens: Tokens | None
    text: str
    stop_reason: str
    turns: tuple[Turn, ...] = ()  # where they say more than the text: several, or words of a person


class RolloutQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "RolloutQuerySet":
        return self.filter(run__in=Run.objects.visible_to(user))

    def without_anchors(self) -> "RolloutQuerySet":
        """Without what the base weights said beside the policy, to be ranked among its replies."""
        return self.exclude(origin=Rollout.Origin.SYNTHETIC)

    def of_run(self, run: Run) -> "RolloutQuerySet":
        """Those of the run, to be ordered by `run_id` and the id: by its own index.

        Asked for `run = …`, the planner may go through all newer rollouts of other runs, and does for a large run that is over.
        """
        return self.filter(run__gte=run.pk, run__lte=run.pk)

    def newest_of(self, run: Run) -> "RolloutQuerySet":
        return self.of_run(run).order_by("run_id", "-pk")

    def newest_of_each(self, runs: Iterable[Run], count: int) -> list[int]:
        """Ids of the newest so many of all these runs together, the newest first; one query, a look into the index for each run."""
        each = [self.newest_of(run).values_list("pk", flat=True)[:count] for run in runs]
        return sorted(each[0].union(*each[1:], all=True), reverse=True)[:count] if each else []


class Rollout(models.Model):
    """One attempt at a task. Token ids are the truth; `text` is their rendering."""

    class State(models.TextChoices):
        SAMPLING = "sampling"
        FINISHED = "finished"
        FAILED = "failed"

    class Origin(models.TextChoices):
        POLICY = "policy"
        EXPERT = "expert"
        SYNTHETIC = "synthetic"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rollouts")
    group = models.ForeignKey("rollouts.Group", on_delete=models.CASCADE, related_name="rollouts")
    sample_index = models.PositiveSmallIntegerField()
    origin = models.CharField(max_length=9, choices=Origin.choices, default=Origin.POLICY)
    state = models.CharField(max_length=8, choices=State.choices, default=State.SAMPLING)
    text = models.TextField(blank=True)
    stop_reason = ReasonField(max_length=200, blank=True, help_text="stop, length, abort, what people did, or why it failed.")
    turns = models.JSONField(default=list, help_text="Who said what (apps.rollouts.turns); empty: one turn, the policy's.")
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    first_version = models.PositiveIntegerField(null=True, help_text="Oldest weight version that sampled a token of it.")
    last_version = models.PositiveIntegerField(null=True)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    arrays_released_at = models.DateTimeField(null=True, help_text="When its arrays were let go; all else of it stays.")

    objects = RolloutQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "origin", "sample_index"], name="one_rollout_per_sample")]
        indexes = [
            models.Index(fields=["run", "-id"], name="newest_rollouts"),
            models.Index(fields=["group"], name="rollouts_being_sampled", condition=Q(state="sampling")),
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk}"

    @property
    def is_sampling(self) -> bool:
        return self.state == self.State.SAMPLING

    @property
    def tokens(self) -> Tokens:
        """Its arrays. Raises ArraysReleased where they were let go."""
        if self.arrays_released_at:
            raise ArraysReleased(f"the arrays of {self} were let go on {self.arrays_released_at:%Y-%m-%d}, by retention")
        return unpack(self.payload.data)

    @property
    def tokens_if_kept(self) -> Tokens | None:
        """As `tokens`; None where they were let go, and of what was not finished."""
        return self.tokens if self.state == self.State.FINISHED and not self.arrays_released_at else None

    @classmethod
    def write_outcomes(cls, outcomes: list[Outcome]) -> None:
        """Fill in the rows and their payloads: their groups got on. The caller holds the groups' locks and the transaction."""
        if not outcomes:
            return
        rows, payloads = [], []
        for outcome in outcomes:
            counts, versions = (0, 0), (None, None)
            if outcome.tokens is not None:
                counts, versions = (len(outcome.tokens.prompt_ids), len(outcome.tokens.completion_ids)), outcome.tokens.versions
                payloads.append((outcome.rollout_id, pack(outcome.tokens)))
            state = cls.State.FAILED if outcome.tokens is None else cls.State.FINISHED
            said = (shown(outcome.text), outcome.stop_reason[:200], json.dumps(kept(outcome.turns)))
            rows.append((outcome.rollout_id, state.value, *said, *counts, *versions))
        # One statement for all rows: bulk_update's CASE per column costs ten times as much.
        with connection.cursor() as cursor:
            cursor.execute(WRITE_OUTCOMES, [list(column) for column in zip(*rows, strict=True)])
            # Binary COPY: as literals in a statement the bytes would be twice as many, and be read back by the server.
            with cursor.copy("COPY rollouts_rolloutpayload (rollout_id, data) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "bytea"])
                for payload in payloads:
                    copy.write_row(payload)


# What was set aside of them goes in the same statement: nearly always there is none.
WRITE_OUTCOMES = """
    WITH ended AS (
        SELECT * FROM unnest(
            %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::int[], %s::int[], %s::int[])
            AS o(id, state, text, stop_reason, turns, prompt_tokens, completion_tokens, first_version, last_version)),
    gone AS (DELETE FROM rollouts_partialrollout WHERE rollout_id IN (SELECT id FROM ended)),
    got_on AS (UPDATE rollouts_group SET attempts = 0 WHERE attempts > 0 AND id IN (
        SELECT group_id FROM rollouts_rollout JOIN ended USING (id) WHERE ended.state = 'finished'))
    UPDATE rollouts_rollout r
    SET state = o.state, text = o.text, stop_reason = o.stop_reason, turns = o.turns::jsonb, prompt_tokens = o.prompt_tokens,
        completion_tokens = o.completion_tokens, first_version = o.first_version, last_version = o.last_version,
        finished_at = statement_timestamp()
    FROM ended o WHERE r.id = o.id"""


class RolloutPayload(models.Model):
    """The rollout's arrays, apart from its narrow row: updating a state never rewrites them."""

    rollout = models.OneToOneField(Rollout, on_delete=models.CASCADE, primary_key=True, related_name="payload")
    data = models.BinaryField()


def shown(text: str) -> str:
    """Model output made storable: NUL becomes its visible symbol, lone surrogates the replacement mark."""
    return text.replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")
