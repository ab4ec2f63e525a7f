"""Each check is silent on a healthy ledger and speaks when its own rule is broken."""

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
    """A run after its first step, as its stations would leave it."""
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


def test_a_healthy_ledger_is_clean(trained):
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


def test_a_lost_group_is_found(trained):
    Run.objects.update(groups_opened=4)
    assert violated() == {"groups match their counters"}


def test_a_group_that_stands_in_two_places_is_found(trained):
    torn = Experience.objects.filter(state="trained").first()
    Experience.objects.filter(pk=torn.pk).update(state="ready", uses=0)
    assert any(
        "have a known state" in words for words in reconcile()["groups match their counters"]
    )


@pytest.mark.django_db(transaction=True)
def test_what_happens_while_a_check_counts_is_no_violation(run):
    """Another connection commits between two questions of one check, and is seen by neither."""
    with one_moment():
        before = Run.objects.get(pk=run.pk).groups_opened
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(_open_group, run.pk).result()
        assert Run.objects.get(pk=run.pk).groups_opened == before
    assert Run.objects.get(pk=run.pk).groups_opened == before + 1


def _open_group(pk: int) -> None:
    Run.objects.filter(pk=pk).update(groups_opened=F("groups_opened") + 1)
    connection.close()


def test_an_experience_trained_without_a_committed_step_is_found(trained):
    TrainStep.objects.update(state=TrainStep.State.PLANNED)
    assert violated() == {"trained experiences belong to committed steps"}


def test_an_update_that_could_not_be_made_again_is_found(trained):
    TrainStep.objects.update(knobs={"optimizer.learning_rate": 1e-3})
    assert violated() == {"steps record their settings"}


def test_a_second_use_is_found(trained):
    Experience.objects.filter(state="trained").update(uses=2)
    assert violated() == {"trained experiences belong to committed steps"}


def test_a_trained_stale_experience_is_found(trained):
    TrainStep.objects.update(version=9)
    assert violated() == {"trained experiences are fresh and rewarded"}


def test_training_without_a_reward_is_found(trained):
    Reward.objects.all().delete()
    assert violated() == {"trained experiences are fresh and rewarded"}


def test_a_word_of_people_that_nobody_said_is_found(trained):
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


def test_weights_published_unverified_are_found(trained):
    WeightVersion.objects.create(
        run=trained, version=1, state="published", folder="/nowhere", fingerprint="f", step=1
    )
    assert violated() == {"published weights match their manifests"}


def test_an_engine_with_other_weights_is_found(trained):
    Acknowledgement.objects.update(fingerprint="other")
    assert violated() == {"engines served what was published"}


def test_rollouts_of_an_unacknowledged_version_are_found(trained):
    Rollout.objects.update(last_version=7)
    assert violated() == {"engines served what was published"}


def test_a_gap_in_the_events_is_found(trained):
    trained.topic.events.first().delete()
    assert violated() == {"changes have events"}


def test_a_state_that_was_not_announced_is_found(trained):
    Run.objects.update(state="paused")
    assert violated() == {"changes have events"}


def test_the_command_exits_with_1_and_names_the_violation(trained, capsys):
    Run.objects.update(groups_opened=4)
    with pytest.raises(SystemExit) as ended:
        call_command("reconcile")
    assert ended.value.code == 1 and "the counter has 4 opened groups" in capsys.readouterr().out


def test_a_rating_that_was_acknowledged_and_is_missing_is_found(trained, tmp_path):
    ledger = tmp_path / "acknowledged.jsonl"
    ledger.write_text(json.dumps({"client_uuid": "6f9f1b2e-0000-4000-8000-000000000000"}) + "\n")
    with pytest.raises(SystemExit):
        call_command("reconcile", acknowledged=ledger)


def test_a_tighter_bound_accuses_no_step_of_the_past(trained):
    TrainStep.objects.update(version=trained.settings.max_staleness)
    trained.change_config(None, max_staleness=0)
    assert violated() == set()
