"""A run's states, its trainer's lease, and its weight versions."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.models import Acknowledgement, NotPossible, Run, StaleFence, WeightVersion, Worker


def test_a_run_needs_its_policy_and_taskset(project, plan):
    with pytest.raises(ConfigError) as refused:
        Run.create(project=project, slug="x", title="x", plan=plan())
    assert set(refused.value.problems) == {"policy", "taskset"}


def test_a_run_begins_with_its_policy_as_version_0(run):
    assert list(run.weight_versions.values_list("version", "state")) == [(0, "published")]


def test_a_run_is_paused_and_resumed(run):
    run.pause(reason="lunch")
    assert (run.state, run.state_reason) == (Run.State.PAUSED, "lunch")
    run.resume()
    assert (run.state, run.state_reason) == (Run.State.RUNNING, "")


def test_a_stopped_run_is_not_started_again(run):
    run.stop()
    with pytest.raises(NotPossible, match="is stopped"):
        run.start()


def test_every_change_of_state_is_an_event_with_who(run, alice):
    run.pause(by=alice)
    event = run.topic.events.last()
    assert (event.kind, event.payload["state"], event.payload["by"]) == (
        "state_changed",
        "paused",
        "alice",
    )


def test_a_changed_knob_leaves_before_and_after(run, alice):
    run.change_config(alice, people={"simulated": True})
    event = run.topic.events.last()
    assert run.settings.people.simulated
    assert (
        event.payload["before"]["people"]["simulated"],
        event.payload["after"]["people"]["simulated"],
    ) == (False, True)


def test_a_wrong_knob_changes_nothing(run, alice):
    with pytest.raises(ConfigError):
        run.change_config(alice, people={"deadline_s": -1})
    assert Run.objects.get().settings.people.deadline_s == 60


def test_one_trainer_holds_a_run(run):
    assert run.claim_trainer("one", 60)
    assert not run.claim_trainer("two", 60)


def test_a_lease_that_is_over_goes_to_the_next_with_a_new_fence(run):
    run.claim_trainer("one", 0)
    first = run.fence
    assert run.claim_trainer("two", 60) and run.fence == first + 1


def test_the_first_trainer_writes_nothing_any_more(run):
    run.claim_trainer("one", 0)
    first = run.fence
    run.claim_trainer("two", 60)
    with pytest.raises(StaleFence), run.fenced(first):
        pass


def test_a_lost_lease_cannot_be_kept(run):
    run.claim_trainer("one", 0)
    assert not run.renew_trainer(run.fence, 60)


def test_only_verified_weights_are_published(run):
    version = WeightVersion.objects.create(run=run, version=1, folder="/x", fingerprint="f", step=1)
    with pytest.raises(NotPossible, match="staged"):
        version.publish()
    version.verify()
    version.publish()
    assert Run.objects.get().published_version == 1


def test_refused_weights_are_not_published(run):
    version = WeightVersion.objects.create(run=run, version=1, folder="/x", fingerprint="f", step=1)
    version.refuse("not finite")
    with pytest.raises(NotPossible):
        version.publish()


def test_an_engine_acknowledges_a_version_once(run):
    worker = Worker.objects.create(key="w", role="explorer", host="h", pid=1)
    for gap in (0.1, 0.01):
        Acknowledgement.record(
            run.weight_versions.get(), worker, fingerprint="0" * 16, probe_gap=gap, milliseconds=1
        )
    assert Acknowledgement.objects.get().probe_gap == 0.01


def test_a_stranger_sees_no_run(run, carol, bob):
    assert list(Run.objects.visible_to(carol)) == [] and list(Run.objects.visible_to(bob)) == [run]


def test_a_rater_steers_nothing(run, alice, bob):
    assert list(Run.objects.steered_by(bob)) == [] and list(Run.objects.steered_by(alice)) == [run]


def reference_refused(project, plan, **reference):
    with pytest.raises(ConfigError) as refused:
        Run.create(
            project=project,
            slug="second",
            title="Second",
            plan=plan(algorithm={"name": "grpo", "reference": reference}),
        )
    return refused.value.problems


def test_a_reference_that_the_project_does_not_have_is_refused(run, project, plan):
    assert (
        "no policy 'large'"
        in reference_refused(project, plan, kind="policy", policy="large")[
            "algorithm.reference.policy"
        ]
    )
    assert (
        "no run 'none'"
        in reference_refused(project, plan, kind="version", run="none")["algorithm.reference.run"]
    )
    words = reference_refused(project, plan, kind="version", run=run.slug, version=7)[
        "algorithm.reference.version"
    ]
    assert "keeps no version 7; it keeps 0" in words


def test_another_runs_version_may_be_the_reference(run, project, plan):
    reference = {"kind": "version", "run": run.slug, "version": 0}
    second = Run.create(
        project=project,
        slug="second",
        title="Second",
        plan=plan(algorithm={"name": "grpo", "reference": reference}),
    )
    assert second.settings.algorithm.reference.run == run.slug
