"""Settings that several trainer processes cannot share are refused in the configuration."""

import pytest
from django.urls import reverse

from apps.policies.models import Policy
from apps.runs.changing import is_live
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.parsing import parse_config

LESSONS = {"algorithm": {"name": "dpo"}, "snapshot": {"source": "preferences", "rows": 6}}
REFUSED = [
    (
        {"trainer": {"sharding": "fsdp2"}},
        "trainer.sharding",
        (
            "is fsdp2, but one process cannot share weights: set trainer.processes to 2 or more, or"
            " remove it"
        ),
    ),
    (
        {"group_size": 4, "groups_per_step": 2, "trainer": {"processes": 9}},
        "trainer.processes",
        "is 9, more than the 8 rows of a step: set it to 8 or less, or increase the rows per step",
    ),
    (
        {**LESSONS, "trainer": {"processes": 4}},
        "trainer.processes",
        (
            "is 4, but the 6 lessons of a step cannot be divided equally among that many: choose a "
            "divisor of snapshot.rows"
        ),
    ),
    (
        {
            "trainer": {"processes": 2, "sharding": "fsdp2"},
            "precision": {"trainer": "float16"},
        },
        "precision.trainer",
        (
            "is float16, which needs loss scaling by all gradients, but with fsdp2 each process "
            "sees only a part of them: use bfloat16 or float32, or `trainer.sharding: ddp`"
        ),
    ),
    (
        {"trainer": {"processes": 2, "sharding": "zero3"}},
        "trainer.sharding",
        "Input should be 'ddp' or 'fsdp2'",
    ),
    (
        {"trainer": {"processes": 0}},
        "trainer.processes",
        "Input should be greater than or equal to 1",
    ),
    (
        {"trainer": {"ranks": 2}},
        "trainer.ranks",
        "is not a known field; known: processes, sharding",
    ),
]


def document(**changes: object) -> dict:
    usual = {"policy": "tiny", "steps": 2, "taskset": "sort", "rewards": [{"scorer": "sort"}]}
    if "snapshot" in changes:
        del usual["rewards"]
    return {**usual, **changes}


@pytest.mark.parametrize(("changes", "field", "words"), REFUSED)
def test_settings_that_cannot_be_shared_are_refused_with_a_reason(changes, field, words):
    with pytest.raises(ConfigError) as refused:
        parse_config(document(**changes))
    assert refused.value.problems == {field: words}


@pytest.mark.parametrize(
    "changes",
    [
        {"group_size": 4, "groups_per_step": 2, "trainer": {"processes": 8}},
        {**LESSONS, "trainer": {"processes": 3, "sharding": "fsdp2"}},
        {"precision": {"trainer": "float16"}, "trainer": {"processes": 2}},
    ],
)
def test_settings_that_can_be_shared_are_accepted(changes):
    wanted = changes["trainer"]
    assert parse_config(document(**changes)).trainer.model_dump(exclude_unset=True) == wanted


def test_trainer_settings_are_refused_for_an_evaluation():
    with pytest.raises(ConfigError) as refused:
        parse_config(document(steps=0, evaluation={}, trainer={"processes": 2}))
    assert "trainer" in refused.value.problems


@pytest.mark.django_db
def test_fsdp2_is_refused_for_a_policy_with_pictures(new_run, policy):
    Policy.objects.filter(pk=policy.pk).update(sees_pictures=True)
    parts = {"processes": 2, "sharding": "fsdp2"}
    with pytest.raises(ConfigError) as refused:
        new_run(trainer=parts)
    words = f"fsdp2 shards only text layers, but {policy.slug!r} sees pictures: use ddp"
    assert refused.value.problems == {"trainer.sharding": words}
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_number_of_trainer_processes_may_change_during_a_run(new_run, client, alice):
    run = new_run(group_size=4, groups_per_step=2)
    assert is_live("trainer.processes")
    run.change_config(None, trainer={"processes": 4})
    assert Run.objects.get(pk=run.pk).settings.trainer.words == "4 processes, ddp"
    client.force_login(alice)
    page = client.get(reverse("run", args=[run.project.slug, run.slug])).content.decode()
    assert "4 processes, ddp" in page
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, trainer={"processes": 40})
    assert "more than the 8 rows" in refused.value.problems["trainer.processes"]
