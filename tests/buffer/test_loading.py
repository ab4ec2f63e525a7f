"""The batch of an update is loaded by one query; it equals what the ORM reads."""

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from apps.buffer.models import Experience, StepItem, batch_of, commit_step, plan_step
from apps.rollouts.models import Rollout, RolloutPayload
from apps.rollouts.payload import ArraysReleased, unpack_payload
from apps.runs.models import Run, StaleFence


@pytest.fixture
def step(run, judged):
    """Return a run and its planned step of two groups of two rollouts."""
    judged(run, (1.0, 0.0), (0.0, 1.0))
    assert run.claim_trainer("t", 60)
    return run, plan_step(run, run.fence)


def columns(row, without=()):
    names = [field.attname for field in row._meta.concrete_fields if field.attname not in without]
    return {name: getattr(row, name) for name in names}


def test_loaded_batch_equals_what_the_orm_reads(step):
    _, planned = step
    items = planned.items.order_by("position")
    slow = list(items.select_related("experience__rollout__payload"))
    with CaptureQueriesContext(connection) as seen:
        batch = batch_of(planned)
        tokens = [one.rollout.tokens for one in batch]
    assert len(seen) == 1
    assert [columns(one) for one in batch] == [columns(item.experience) for item in slow]
    late = ("text", "turns")
    assert [columns(one.rollout, late) for one in batch] == [
        columns(item.experience.rollout, late) for item in slow
    ]
    assert tokens == [unpack_payload(item.experience.rollout.payload.data) for item in slow]
    assert [one.rollout.text for one in batch] == [item.experience.rollout.text for item in slow]
    assert [one.credit for one in batch] == [item.experience.credit for item in slow]


def test_every_column_except_text_and_turns_is_loaded():
    from apps.buffer.models.loading import EXPERIENCE, ROLLOUT

    assert [field.attname for field in Experience._meta.concrete_fields] == list(EXPERIENCE)
    every = {field.attname for field in Rollout._meta.concrete_fields}
    assert every - ROLLOUT.keys() == {"text", "turns"}


def test_recorded_credit_and_exclusion_are_loaded(step):
    _, planned = step
    first = planned.items.get(position=0)
    StepItem.objects.filter(pk=first.pk).update(
        advantage=0.25, token_advantages=b"\0\0\0?", left_out="length: too long", is_again=True
    )
    one, other, *_ = batch_of(planned)
    assert (one.credit.advantage, one.credit.tokens) == (0.25, (0.5,))
    assert (one.left_out, one.is_again) == ("length: too long", True)
    assert (other.left_out, other.is_again, other.credit.tokens) == ("", False, None)


def test_released_arrays_raise_when_read_from_a_batch(step):
    _, planned = step
    rollout = planned.items.get(position=0).experience.rollout
    RolloutPayload.objects.filter(rollout=rollout).delete()
    Rollout.objects.filter(pk=rollout.pk).update(arrays_released_at=Now())
    first, second, *_ = batch_of(planned)
    with pytest.raises(ArraysReleased):
        first.rollout.tokens  # noqa: B018
    assert second.rollout.tokens.prompt_ids


def test_step_whose_plan_was_lost_is_not_committed(step):
    """Planning does not wait for the disk; a crash of the database can lose the plan."""
    run, planned = step
    type(planned).objects.filter(pk=planned.pk).delete()
    with pytest.raises(StaleFence, match="is not planned"), run.fenced(run.fence) as locked:
        commit_step(locked, planned, run.fence)
    assert Run.objects.get(pk=run.pk).step == 0


def test_plan_of_another_trainer_is_not_committed(step):
    """The lost plan's number was given to another trainer's plan, under another fence."""
    run, planned = step
    type(planned).objects.filter(pk=planned.pk).update(fence=planned.fence + 1)
    with pytest.raises(StaleFence), run.fenced(run.fence) as locked:
        commit_step(locked, planned, run.fence)
    assert Run.objects.get(pk=run.pk).step == 0
