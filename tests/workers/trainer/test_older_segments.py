"""What older weights said of an answer is in the loss or out of it, as the run says; what follows
is read behind it either way.
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
    """Of each answer version 0 said all but the last token, version 1 that."""
    plain = feeding._tokens

    def mixed(rollout, version):
        tokens = plain(rollout, version)
        return replace(tokens, segments=((0, 0), (len(tokens.completion_ids) - 1, 1)))

    monkeypatch.setattr(feeding, "_tokens", mixed)


def learned_tokens(run, loop) -> float:
    feeding.feed(run)
    assert loop.serve()
    return Metric.objects.get(run=run, step=1, name="tokens").value


def test_an_update_learns_from_the_newest_segments_alone_where_the_run_says_so(tiny_run, new_loop):
    run = tiny_run(sampling={"older_segments": "leave_out"})
    assert (
        learned_tokens(run, new_loop())
        == Experience.objects.filter(step_items__step__run=run).count()
        == 8
    )


def test_it_learns_from_all_of_them_otherwise(tiny_run, new_loop):
    run = tiny_run()
    said = learned_tokens(run, new_loop())
    assert (
        said == sum(len(one.rollout.tokens.completion_ids) for one in batch_of(run.steps.get())) > 8
    )


def test_what_is_left_out_is_read_though_and_an_experts_row_is_imitated_as_a_whole(tiny_run):
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


def test_an_experience_is_as_old_as_its_oldest_segment(tiny_run):
    run = tiny_run(sampling={"older_segments": "leave_out"})
    feeding.feed(run)
    assert set(Experience.objects.values_list("weight_version", flat=True)) == {0}
