"""The rule `combined` as an SQL expression, to search rollouts that were never admitted."""

from django.db.models import (
    Avg,
    BooleanField,
    Case,
    Count,
    Exists,
    F,
    FloatField,
    Func,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce

from apps.rewards.combining import PEOPLE, RATER_MODEL
from apps.rewards.models import LATE, Reward
from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.judged_by import KEY

NOTHING = Cast(Value(None), FloatField())
DOMAIN = "group__task__domain"
JUDGED_BY = f"group__task__meta__{KEY}"  # of a rollout


def combined_so_far(plan: RunConfig) -> Combinable:
    """Return an SQL expression for a rollout's reward from the judgements so far; NULL without any.

    It computes the same as `apps.rewards.combining.combined`.
    """
    machine = _machine_reward(plan)
    people: Subquery | Case = _people_value()
    share = Value(plan.people.weight)
    is_predicted = plan.people.rater_model and plan.people.per_group
    if is_predicted:
        asked_about = (
            Q(**{f"{DOMAIN}__in": plan.people.domains})
            if plan.people.domains
            else Q(pk__isnull=False)
        )
        people = Case(
            When(asked_about, then=_predicted_value()), default=people, output_field=FloatField()
        )
    weighted_sum = share * people + (Value(1.0) - share) * machine
    # People rated almost none of the rollouts searched: one subquery shows that, while the full
    # expression takes four.
    alone = (
        []
        if is_predicted
        else [When(~Exists(_current_rewards().filter(source=Reward.Source.HUMAN)), then=machine)]
    )
    flagged = When(Q(_is_flagged()), then=NOTHING)
    return Case(
        *alone, flagged, default=Coalesce(weighted_sum, people, machine), output_field=FloatField()
    )


def _current_rewards() -> QuerySet[Reward]:
    """Return the current rewards of the outer rollout, without late judgements by people.

    The rollout is compared twice, so that an index is used for each rollout instead of the whole
    table.
    """
    rewards = Reward.objects.filter(
        rollout=OuterRef("pk"), rollout__gte=OuterRef("pk"), is_current=True
    )
    return rewards.exclude(details__has_key=LATE).order_by()


def _aggregate(rewards: QuerySet[Reward], value: Combinable, kind: type = FloatField) -> Subquery:
    """Return an aggregate over these rewards; NULL where there are none."""
    return Subquery(
        rewards.values("rollout").annotate(word=value).values("word"), output_field=kind()
    )


def _machine_reward(plan: RunConfig) -> Subquery:
    """Return a subquery of Σ weight × value over the task's judges.

    It is NULL while one of them is missing or has failed.
    """
    choices = {choice.scorer: choice for choice in plan.judges}
    is_judge = {
        scorer: Q(scorer=scorer) & _judges(choice, plan, "rollout__")
        for scorer, choice in choices.items()
    }
    weighted = Case(
        *(
            When(is_judge[scorer], then=F("value") * Value(choices[scorer].weight))
            for scorer in choices
        ),
        default=NOTHING,
    )
    scored = Case(
        *(When(judge & Q(value__isnull=False), then=Value(1)) for judge in is_judge.values()),
        default=Value(0),
    )
    expected = sum(
        (
            Case(When(_judges(choice, plan, "rollout__"), then=Value(1)), default=Value(0))
            for choice in choices.values()
        ),
        Value(0),
    )
    rewards = _current_rewards().exclude(source=Reward.Source.HUMAN).values("rollout")
    rewards = rewards.annotate(
        scored=Sum(scored), expected=Max(expected), total=Sum(weighted, output_field=FloatField())
    )
    return Subquery(
        rewards.filter(scored=F("expected"), expected__gt=0).values("total"),
        output_field=FloatField(),
    )


def _judges(choice: ScorerChoice, plan: RunConfig, prefix: str) -> Q:
    """Return the condition that this scorer judges a task, as `RunConfig.judges_of` decides it."""
    if plan.environment is not None and choice.scorer == plan.environment.name:
        return Q(pk__isnull=False)
    names = Q(_is_list(f"{prefix}{JUDGED_BY}")) & ~Q(**{f"{prefix}{JUDGED_BY}": []})
    of_domain = (
        Q(**{f"{prefix}{DOMAIN}__in": choice.domains}) if choice.domains else Q(pk__isnull=False)
    )
    return (names & Q(**{f"{prefix}{JUDGED_BY}__contains": [choice.scorer]})) | (~names & of_domain)


def _is_list(path: str) -> Func:
    template = "coalesce(jsonb_typeof(%(expressions)s) = 'array', false)"
    return Func(F(path), template=template, output_field=BooleanField())


def _people_value() -> Subquery:
    """Return a subquery of people's combined value, or of the mean of their values before.

    The combined value exists once it is computed from their votes.
    """
    is_combined = Q(scorer=PEOPLE)
    value = Coalesce(Avg("value", filter=is_combined), Avg("value"))
    return _aggregate(_current_rewards().filter(source=Reward.Source.HUMAN), value)


def _is_flagged() -> Combinable:
    """Return the condition that a person, or the combined judgement, flagged the rollout."""
    is_combined = Q(scorer=PEOPLE)
    is_null = Q(value=None)
    rewards = _current_rewards().filter(source=Reward.Source.HUMAN).values("rollout")
    rewards = rewards.annotate(together=Count("pk", filter=is_combined))
    flags = Case(
        When(together__gt=0, then=Count("pk", filter=is_combined & is_null)),
        default=Count("pk", filter=is_null),
        output_field=IntegerField(),
    )
    flag_count = Subquery(
        rewards.annotate(flags=flags).values("flags"), output_field=IntegerField()
    )
    return Func(
        Coalesce(flag_count, Value(0)),
        template="(%(expressions)s) > 0",
        output_field=BooleanField(),
    )


def _predicted_value() -> Subquery:
    return _aggregate(
        _current_rewards().filter(scorer=RATER_MODEL).exclude(source=Reward.Source.HUMAN),
        Max("value"),
    )
