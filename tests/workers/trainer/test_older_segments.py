"""Tokens of an answer sampled by older weights are in the loss or not, as configured; they always
stay in the input.
"""

from dataclasses import replace

import pytest

from apps.buffer.models import Experience, batch_of
from apps.runs.models import Metric
from tests.workers.trainer import feeding
from workers.trainer.run_trainer import build_training_row

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def two_versions(monkeypatch):
    """Let version 0 sample each answer except for its last token, which version 1 samples."""
    plain = feeding._tokens

    def mixed(rollout, version):
        tokens = plain(rollout, version)
        return replace(tokens, segments=((0, 0), (len(tokens.completion_ids) - 1, 1)))

    monkeypatch.setattr(feeding, "_tokens", mixed)


def learned_tokens(run, loop) -> float:
    feeding.feed(run)
    assert loop.serve()
    return Metric.objects.get(run=run, step=1, name="tokens").value


def test_leave_out_trains_only_on_the_newest_segment(tiny_run, new_loop):
    run = tiny_run(sampling={"older_segments": "leave_out"})
    assert (
        learned_tokens(run, new_loop())
        == Experience.objects.filter(step_items__step__run=run).count()
        == 8
    )


def test_all_segments_are_trained_by_default(tiny_run, new_loop):
    run = tiny_run()
    said = learned_tokens(run, new_loop())
    assert (
        said == sum(len(one.rollout.tokens.completion_ids) for one in batch_of(run.steps.get())) > 8
    )


def test_left_out_tokens_stay_in_the_input_and_expert_rows_are_trained_completely(tiny_run):
    run = tiny_run(sampling={"older_segments": "leave_out"})
    feeding.feed(run)
    experience = Experience.objects.first()
    tokens = experience.rollout.tokens
    row = build_training_row(experience, newest_only=True)
    assert row.completion_ids == tokens.completion_ids and row.action_mask == (
        *[0] * (len(tokens.completion_ids) - 1),
        1,
    )
    experience.kind = Experience.Kind.EXPERT
    assert build_training_row(experience, newest_only=True).action_mask == tokens.action_mask


def test_experience_has_the_version_of_its_oldest_segment(tiny_run):
    run = tiny_run(sampling={"older_segments": "leave_out"})
    feeding.feed(run)
    assert set(Experience.objects.values_list("weight_version", flat=True)) == {0}
