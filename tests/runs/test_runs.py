"""A run's states, its trainer's lease, and its weight versions."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.models import Acknowledgement, NotPossible, Run, StaleFence, WeightVersion, Worker


def test_run_needs_an_existing_policy_and_taskset(project, plan):
    with pytest.raises(ConfigError) as refused:
        Run.create(project=project, slug="x", title="x", plan=plan())
    assert set(refused.value.problems) == {"policy", "taskset"}


def test_a_run_begins_with_its_policy_as_version_0(run):
    assert list(run.weight_versions.values_list("version", "state")) == [(0, "published")]


def test_run_can_be_paused_and_resumed(run):
    run.pause(reason="lunch")
    assert (run.state, run.state_reason) == (Run.State.PAUSED, "lunch")
    run.resume()
    assert (run.state, run.state_reason) == (Run.State.RUNNING, "")


def test_stopped_run_cannot_be_started_again(run):
    run.stop()
    with pytest.raises(NotPossible, match="is stopped"):
        run.start()


def test_change_of_state_is_an_event_with_the_user(run, alice):
    run.pause(by=alice)
    event = run.topic.events.last()
    assert (event.kind, event.payload["state"], event.payload["by"]) == (
        "state_changed",
        "paused",
        "alice",
    )


def test_changed_setting_is_an_event_with_old_and_new_values(run, alice):
    run.change_config(alice, people={"simulated": True})
    event = run.topic.events.last()
    assert run.settings.people.simulated
    assert (
        event.payload["before"]["people"]["simulated"],
        event.payload["after"]["people"]["simulated"],
    ) == (False, True)


def test_invalid_setting_changes_nothing(run, alice):
    with pytest.raises(ConfigError):
        run.change_config(alice, people={"deadline_s": -1})
    assert Run.objects.get().settings.people.deadline_s == 60


def test_only_one_trainer_can_hold_a_run(run):
    assert run.claim_trainer("one", 60)
    assert not run.claim_trainer("two", 60)


def test_next_trainer_gets_an_expired_lease_with_a_new_fence(run):
    run.claim_trainer("one", 0)
    first = run.fence
    assert run.claim_trainer("two", 60) and run.fence == first + 1


def test_first_trainer_can_no_longer_write_after_a_takeover(run):
    run.claim_trainer("one", 0)
    first = run.fence
    run.claim_trainer("two", 60)
    with pytest.raises(StaleFence), run.fenced(first):
        pass


def test_expired_lease_cannot_be_renewed(run):
    run.claim_trainer("one", 0)
    assert not run.renew_trainer(run.fence, 60)


def test_only_verified_weights_can_be_published(run):
    version = WeightVersion.objects.create(run=run, version=1, folder="/x", fingerprint="f", step=1)
    with pytest.raises(NotPossible, match="staged"):
        version.publish()
    version.verify()
    version.publish()
    assert Run.objects.get().published_version == 1


def test_refused_weights_cannot_be_published(run):
    version = WeightVersion.objects.create(run=run, version=1, folder="/x", fingerprint="f", step=1)
    version.refuse("not finite")
    with pytest.raises(NotPossible):
        version.publish()


def test_repeated_acknowledgement_of_an_engine_replaces_the_first(run):
    worker = Worker.objects.create(key="w", role="explorer", host="h", pid=1)
    for gap in (0.1, 0.01):
        Acknowledgement.record(
            run.weight_versions.get(), worker, fingerprint="0" * 16, probe_gap=gap, milliseconds=1
        )
    assert Acknowledgement.objects.get().probe_gap == 0.01


def test_members_but_not_strangers_see_a_run(run, carol, bob):
    assert list(Run.objects.visible_to(carol)) == [] and list(Run.objects.visible_to(bob)) == [run]


def test_owner_but_not_a_rater_may_steer_a_run(run, alice, bob):
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


def test_reference_missing_from_the_project_is_refused(run, project, plan):
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


def test_version_of_another_run_may_be_the_reference(run, project, plan):
    reference = {"kind": "version", "run": run.slug, "version": 0}
    second = Run.create(
        project=project,
        slug="second",
        title="Second",
        plan=plan(algorithm={"name": "grpo", "reference": reference}),
    )
    assert second.settings.algorithm.reference.run == run.slug
