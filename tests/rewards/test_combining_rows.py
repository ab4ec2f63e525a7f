"""The database combines judgements exactly like the Python rule."""

import random

import pytest

from apps.accounts.models import User
from apps.rewards.combining import combined
from apps.rewards.combining_rows import combined_so_far
from apps.rewards.judgements import load_judgements
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.parsing import parse_config

VALUES = (0.0, 0.25, 0.5, 1.0, None)
PLANS = {
    "machines": {
        "rewards": [{"scorer": "math", "weight": 1.0}, {"scorer": "length", "weight": -0.1}]
    },
    "people": {"rewards": [], "people": {"per_group": 1, "at_deadline": "drop"}},
    "both": {
        "rewards": [{"scorer": "math", "weight": 2.0}],
        "people": {"per_group": 1, "weight": 0.75},
    },
    "by domain": {
        "rewards": [
            {"scorer": "math", "domains": ["number"]},
            {"scorer": "tone", "domains": ["words"]},
        ]
    },
}
KINDS = (
    {},
    {"judged_by": ["math"]},
    {"judged_by": ["math", "length"]},
    {"judged_by": []},
    {"judged_by": "math"},
)


def say(rollout, draw, people):
    for scorer, source in (
        ("math", "rule"),
        ("length", "rule"),
        ("tone", "model"),
        ("rater_model", "model"),
    ):
        if draw.random() < 0.8:
            value = draw.choice(VALUES)
            Reward.objects.create(
                rollout=rollout,
                scorer=scorer,
                source=source,
                value=value,
                reason="" if value else "broke",
            )
    for person in people:
        if draw.random() < 0.4:
            value = draw.choice(VALUES)
            late = {LATE: True} if draw.random() < 0.3 else {}
            Reward.objects.create(
                rollout=rollout,
                scorer="stars",
                source="human",
                by=person,
                value=value,
                reason="flagged",
                details=late,
            )
    if draw.random() < 0.3:
        value = draw.choice(VALUES)
        Reward.objects.create(
            rollout=rollout, scorer="people", source="human", value=value, reason="flagged"
        )


@pytest.mark.django_db
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("foretold", [False, True])
def test_database_combines_rewards_as_the_python_rule_does(new_run, name, foretold):
    draw = random.Random(name)
    run = new_run(max_staleness=5)
    people = [User.objects.create(username=f"rater-{n}") for n in range(2)]
    plan = parse_config(run.config | PLANS[name])
    if foretold:
        plan = plan.model_copy(
            update={"people": plan.people.model_copy(update={"rater_model": True, "per_group": 1})}
        )
    groups = Group.open(run, "explorer", 60, len(KINDS), 0)
    for group, meta in zip(groups, KINDS, strict=True):
        type(group.task).objects.filter(pk=group.task_id).update(
            meta=meta, domain=draw.choice(["number", "words"])
        )
        for rollout in group.rollouts.all():
            say(rollout, draw, people)
    told = dict(
        Rollout.objects.filter(run=run)
        .annotate(so_far=combined_so_far(plan))
        .values_list("pk", "so_far")
    )
    said = load_judgements(list(told))
    for rollout in Rollout.objects.filter(run=run).select_related("group__task"):
        expected = combined(said[rollout.pk], plan, rollout.group.task.kind)
        assert told[rollout.pk] == (None if expected is None else pytest.approx(expected))
    assert any(value is not None for value in told.values())
