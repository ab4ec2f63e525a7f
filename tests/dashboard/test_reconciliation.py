"""Each check reports nothing on a healthy ledger, and reports a violation of its own rule."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F

from apps.buffer.models import Experience, commit_step, plan_step
from apps.dashboard.reconciliation import one_moment, reconcile
from apps.dashboard.reconciliation.groups import group_ledger
from apps.pipelines.refining import refine
from apps.rewards.models import Reward
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Acknowledgement, Run, TrainStep, WeightVersion, Worker


@pytest.fixture
def trained(run, finish) -> Run:
    """Return a run after its first step, in the state that the workers would leave."""
    worker = Worker.objects.create(key="explorer@test:1:1", role="explorer", host="test", pid=1)
    base = run.weight_versions.get()
    Acknowledgement.record(
        base, worker, fingerprint=base.fingerprint, probe_gap=0.001, milliseconds=5
    )
    finish(run, ["12345", "99999"], groups=3)
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
    record_verdicts(
        claimed,
        [
            AnsweredQuestion(q, [Verdict(float(q.rollouts[0].text == "12345"), "test")])
            for q in open_questions(claimed)
        ],
    )
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
    run.claim_trainer("t", 60)
    step = plan_step(run, run.fence)
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    return Run.objects.get(pk=run.pk)


def violated() -> set[str]:
    return {name for name, found in reconcile().items() if found}


def test_healthy_ledger_has_no_violations(trained):
    assert violated() == set()


def test_every_group_is_counted_once(trained):
    ledger = group_ledger(trained)
    assert ledger == {
        "issued": 3,
        "sampling": 0,
        "waiting": 0,
        "ready": 1,
        "claimed": 0,
        "trained": 2,
        "measured": 0,
        "dropped": 0,
    }


def test_lost_group_is_reported(trained):
    Run.objects.update(groups_opened=4)
    assert violated() == {"groups match their counters"}


def test_experience_in_the_wrong_state_is_reported(trained):
    torn = Experience.objects.filter(state="trained").first()
    Experience.objects.filter(pk=torn.pk).update(state="ready", uses=0)
    assert any(
        "have a known state" in words for words in reconcile()["groups match their counters"]
    )


@pytest.mark.django_db(transaction=True)
def test_commit_during_a_check_is_not_a_violation(run):
    """Commit from another connection between two queries of one check; neither query sees it."""
    with one_moment():
        before = Run.objects.get(pk=run.pk).groups_opened
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(_open_group, run.pk).result()
        assert Run.objects.get(pk=run.pk).groups_opened == before
    assert Run.objects.get(pk=run.pk).groups_opened == before + 1


def _open_group(pk: int) -> None:
    Run.objects.filter(pk=pk).update(groups_opened=F("groups_opened") + 1)
    connection.close()


def test_experience_trained_without_a_committed_step_is_reported(trained):
    TrainStep.objects.update(state=TrainStep.State.PLANNED)
    assert violated() == {"trained experiences belong to committed steps"}


def test_step_without_complete_settings_is_reported(trained):
    TrainStep.objects.update(knobs={"optimizer.learning_rate": 1e-3})
    assert violated() == {"steps record their settings"}


def test_second_use_of_an_experience_is_reported(trained):
    Experience.objects.filter(state="trained").update(uses=2)
    assert violated() == {"trained experiences belong to committed steps"}


def test_trained_experience_that_is_too_stale_is_reported(trained):
    TrainStep.objects.update(version=9)
    assert violated() == {"trained experiences are fresh and rewarded"}


def test_training_without_a_reward_is_reported(trained):
    Reward.objects.all().delete()
    assert violated() == {"trained experiences are fresh and rewarded"}


def test_reward_from_people_without_ratings_is_reported(trained):
    rollout = trained.rollouts.filter(state="finished").first()
    Reward.objects.filter(rollout=rollout, scorer="people").delete()
    Reward.objects.create(
        rollout=rollout,
        source="human",
        scorer="people",
        value=0.5,
        details={"rule": "mean", "ratings": []},
    )
    assert violated() == {"people's rewards match their ratings"}


def test_published_but_unverified_weights_are_reported(trained):
    WeightVersion.objects.create(
        run=trained, version=1, state="published", folder="/nowhere", fingerprint="f", step=1
    )
    assert violated() == {"published weights match their manifests"}


def test_engine_with_other_weights_is_reported(trained):
    Acknowledgement.objects.update(fingerprint="other")
    assert violated() == {"engines served what was published"}


def test_rollouts_of_an_unacknowledged_version_are_reported(trained):
    Rollout.objects.update(last_version=7)
    assert violated() == {"engines served what was published"}


def test_gap_in_the_events_is_reported(trained):
    trained.topic.events.first().delete()
    assert violated() == {"changes have events"}


def test_state_without_an_event_is_reported(trained):
    Run.objects.update(state="paused")
    assert violated() == {"changes have events"}


def test_command_exits_with_1_and_prints_the_violation(trained, capsys):
    Run.objects.update(groups_opened=4)
    with pytest.raises(SystemExit) as ended:
        call_command("reconcile")
    assert ended.value.code == 1 and "the counter has 4 opened groups" in capsys.readouterr().out


def test_acknowledged_rating_that_is_missing_is_reported(trained, tmp_path):
    ledger = tmp_path / "acknowledged.jsonl"
    ledger.write_text(json.dumps({"client_uuid": "6f9f1b2e-0000-4000-8000-000000000000"}) + "\n")
    with pytest.raises(SystemExit):
        call_command("reconcile", acknowledged=ledger)


def test_lower_staleness_limit_does_not_flag_earlier_steps(trained):
    TrainStep.objects.update(version=trained.settings.max_staleness)
    trained.change_config(None, max_staleness=0)
    assert violated() == set()
