"""A run may be deleted while an explorer is busy loading another; the explorer then goes on."""

import pytest

from apps.rollouts.models import Group
from apps.runs.deleting import delete_runs
from apps.runs.models import Run, Usage
from workers.explorer.usage_meter import UsageMeter
from workers.run_removal.removing import remove_next

pytestmark = pytest.mark.django_db(transaction=True)
QUICK = {"engine": "transformers", "sampling": {"max_tokens": 4}, "max_staleness": 0}


@pytest.fixture
def delete(settings, tmp_path, alice):
    """Return a function that stops a run and deletes it with everything that it has."""
    settings.WEIGHTS_ROOT = tmp_path / "weights"

    def removed(run: Run) -> None:
        run.stop()
        Group.objects.close_ended()
        delete_runs([run], alice)
        assert remove_next("test")
        assert not Run.objects.filter(pk=run.pk).exists()

    return removed


def test_explorer_leaves_a_deleted_run_and_samples_the_next(new_run, tiny_policy, stage, delete):
    gone = new_run(**QUICK)

    def is_sampled(run: Run) -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=run, state=Group.State.SCORING).exists()

    stage.eventually(lambda: is_sampled(gone), 300)
    delete(gone)
    following = new_run(**QUICK)
    stage.eventually(lambda: is_sampled(following), 300)
    assert stage.explorer.sessions.keys() == {following.pk}


def test_usage_of_other_runs_is_saved_after_a_run_was_deleted(new_run, delete):
    gone = new_run()
    other = new_run()
    meter = UsageMeter("explorer@lab:1:1", on_gpu=False, processor=iter([0.0, 2.0]).__next__)
    meter.record({gone.pk: True, other.pk: True})
    delete(gone)
    meter.save()
    assert list(Usage.objects.values_list("run", "amount")) == [(other.pk, 1.0)]
    assert not meter.unsaved
