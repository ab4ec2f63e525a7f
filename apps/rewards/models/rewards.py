"""Rewards of a rollout: a number and its source, or NULL with the reason."""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, models
from django.db.models import Q

from apps.accounts.models import User
from apps.accounts.public_text import ReasonField, public_text
from apps.rollouts.models import Rollout

LATE = "is_late"  # the key in the details of a person's reward that came late; there, it is true
# The key in the details of what raters say together: how many of its ratings are simulated. Absent
# where none is.
SIMULATED = "simulated_ratings"
ALL_SIMULATED = "is_simulated"  # beside it, true where every rating is


class JudgeReply(models.Model):
    """Cached reply of a judge to one request, so that the same request is not paid for twice."""

    key = models.CharField(
        max_length=64,
        unique=True,
        help_text="SHA-256 of service, model, messages, settings and vote.",
    )
    text = models.TextField()
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    seconds = models.FloatField()
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.key[:12]


class ScoreRecord(models.Model):
    """Judgement by one scorer: a number, or NULL with the reason.

    It records the scorer's version and options, and how long the judgement took.
    """

    scorer = models.CharField(max_length=60)
    value = models.FloatField(null=True)
    reason = ReasonField(max_length=300, blank=True)
    version = models.PositiveIntegerField(
        db_default=1,
        help_text="Version of the scorer. It rises when the same text may get a different value.",
    )
    options = models.JSONField(db_default={}, help_text="Options of the scorer in the run.")
    seconds = models.FloatField(null=True, help_text="Duration of the judgement, if measured.")
    details = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    def copied_fields(self) -> dict:
        """Return the judgement and its scorer, to be copied to another row."""
        names = ("scorer", "value", "reason", "version", "options", "seconds", "details")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        return f"{self.scorer}: {self.value if self.value is not None else self.reason}"


def finite(field: str) -> Q:
    """Return the condition that a field is NULL or finite: no NaN and no infinity.

    In Postgres NaN sorts above every number, so one comparison refuses NaN and both infinities.
    """
    return Q(**{field: None}) | (
        Q(**{f"{field}__gt": float("-inf")}) & Q(**{f"{field}__lt": float("inf")})
    )


SAYS_WHY = ~Q(value=None) | ~Q(reason="")


PUT = """
    INSERT INTO rewards_reward (rollout_id, source, scorer, value, reason, version, options,
        seconds, details, is_current, at)
    SELECT rollout, source, scorer, value, reason, version, options::jsonb, seconds, details::jsonb,
        true, statement_timestamp()
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::float8[], %s::text[], %s::int[],
        %s::text[], %s::float8[], %s::text[])
        AS r(rollout, source, scorer, value, reason, version, options, seconds, details)
    ON CONFLICT DO NOTHING"""


class NewReward(NamedTuple):
    """The columns of a machine's reward that is added; `options` and `details` become JSON."""

    rollout: int
    source: str
    scorer: str
    value: float | None
    reason: str
    version: int
    options: Any
    seconds: float | None
    details: Any


class RewardQuerySet(models.QuerySet):
    """Judgements by who gave them."""

    def put(self, rewards: Iterable["NewReward"]) -> None:
        """Add machines' rewards; one that its scorer gave the rollout before changes nothing.

        One statement with an array for each column, as bulk_create's placeholders for each value
        cost several times as much.
        """
        public_reason = cache(public_text)  # most rewards have the reason of others
        rows = [
            reward._replace(
                reason=public_reason(reward.reason),
                options=json.dumps(reward.options),
                details=json.dumps(reward.details),
            )
            for reward in rewards
        ]
        if rows:
            with connection.cursor() as cursor:
                cursor.execute(PUT, [list(column) for column in zip(*rows, strict=True)])

    def by_people(self) -> "RewardQuerySet":
        """Select the rewards that at least one person gave, without purely simulated ones."""
        human = self.filter(source=Reward.Source.HUMAN)
        return human.exclude(by__is_simulated=True).exclude(details__has_key=ALL_SIMULATED)

    def without_simulated(self) -> "RewardQuerySet":
        """Leave out every reward that a simulated decision contributed to, mixed ones included.

        What each person gave stays, so a mixed reward is replaced by its people's own words.
        """
        return self.exclude(by__is_simulated=True).exclude(details__has_key=SIMULATED)

    def simulated(self) -> "RewardQuerySet":
        """Select the rewards that the simulated rater alone gave."""
        return self.filter(
            Q(by__is_simulated=True) | Q(details__has_key=ALL_SIMULATED),
            source=Reward.Source.HUMAN,
        )


class Reward(ScoreRecord):
    """Judgement of a rollout. A failure of machinery is NULL with a reason, never a number."""

    class Source(models.TextChoices):
        RULE = "rule"
        MODEL = "model"
        ENVIRONMENT = "environment"
        HUMAN = "human"

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="rewards")
    source = models.CharField(max_length=11, choices=Source.choices)
    uncertainty = models.FloatField(null=True, help_text="Standard error of the value, if known.")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="rewards_given"
    )
    is_current = models.BooleanField(
        default=True, help_text="False after the same person has given a newer one."
    )

    objects = RewardQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=finite("value"), name="rewards_are_finite"),
            models.CheckConstraint(condition=SAYS_WHY, name="a_missing_reward_says_why"),
            models.CheckConstraint(
                condition=Q(uncertainty=None)
                | (Q(uncertainty__gte=0) & Q(uncertainty__lt=float("inf"))),
                name="uncertainties_are_finite",
            ),
            models.UniqueConstraint(
                fields=["rollout", "scorer"], condition=Q(by=None), name="one_reward_per_machine"
            ),
            models.UniqueConstraint(
                fields=["rollout", "scorer", "by"],
                condition=Q(is_current=True),
                name="one_current_reward_per_person",
            ),
        ]

    @property
    def is_late(self) -> bool:
        """Tell whether the reward came after its group was judged.

        It is kept and shown, but not trained on.
        """
        return LATE in self.details

    @property
    def is_simulated(self) -> bool:
        """Tell whether the simulated rater alone gave the reward."""
        return ALL_SIMULATED in self.details or (self.by is not None and self.by.is_simulated)

    @property
    def is_mixed(self) -> bool:
        """Tell whether it was made of people's and of simulated ratings together."""
        return SIMULATED in self.details and not self.is_simulated

    @property
    def kind(self) -> str:
        """Return the source for pages, where a simulated rater is not shown as a person."""
        return "simulated" if self.is_simulated else self.source

    @property
    def shown_name(self) -> str:
        """Return the judge's name for pages; purely simulated rewards are not called "people"."""
        if self.by is not None:
            return self.by.username
        return "simulated" if self.is_simulated else self.scorer

    @property
    def kind_label(self) -> str:
        """Name the source in words, and how many of the ratings in it are simulated."""
        if self.is_simulated:
            return "Simulated rater, not a person"
        if count := self.details.get(SIMULATED):
            return f"Human, {count} of {len(self.details['ratings'])} ratings simulated"
        return self.get_source_display()

    @classmethod
    def record(
        cls,
        rollout: Rollout,
        source: str,
        scorer: str,
        value: float | None,
        *,
        reason: str = "",
        details: dict | None = None,
        by: User | None = None,
    ) -> "Reward":
        """Write a judgement.

        A machine's second word on the same rollout is ignored; a person's replaces the first as
        current.
        """
        if by is not None:
            word = cls(
                rollout=rollout,
                source=source,
                scorer=scorer,
                value=value,
                reason=reason[:300],
                details=details or {},
                by=by,
            )
            return cls.record_words(by, scorer, [word])[0]
        reward, _ = cls.objects.get_or_create(
            rollout=rollout,
            scorer=scorer,
            by=None,
            defaults={
                "source": source,
                "value": value,
                "reason": reason[:300],
                "details": details or {},
            },
        )
        return reward

    @classmethod
    def record_words(cls, by: User, scorer: str, words: list["Reward"]) -> list["Reward"]:
        """Write one person's judgements with one scorer, in the order they were given.

        The last one on a rollout is the current one. Two statements, however many judgements.
        """
        last = {word.rollout_id: word for word in words}
        for word in words:
            word.is_current = last[word.rollout_id] is word
        cls.objects.filter(rollout__in=last, scorer=scorer, by=by, is_current=True).update(
            is_current=False
        )
        return cls.objects.bulk_create(words)
