"""Retention: arrays that are no longer needed are released by the run's rule; all other arrays and
data are kept.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from django.urls import reverse

from apps.buffer.ledger import deleted_arrays_are_not_needed
from apps.buffer.models import Experience, Release, groups_again, plan_step
from apps.buffer.retention import (
    ReleaseSize,
    find_retention_rule,
    list_groups_due,
    release_arrays,
    released,
    would_go,
)
from apps.dashboard.reconciliation import reconcile
from apps.feedback.models import Intervention, Item
from apps.lineage.replaying.creating import NothingToReplay, propose
from apps.pipelines.dry_run import dry_run
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import ArraysReleased
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from apps.runs.retention import Retention
from tests.runs.test_reading import GOOD
from workers.retention import retain

WIDE = (0.0, 1.0)
MONTH = Retention(days=30)
NO_ENGINE = {"engines served what was published", "published weights match their manifests"}


@pytest.fixture
def sampled(new_run, judged):
    """Create a run with this configuration and number of groups, judged 31 days ago."""

    def make(groups: int = 2, **changes: object) -> Run:
        few = {
            "checkpoints": {"every": 1, "keep": 2},
            "groups_per_step": 2,
            "max_staleness": 9,
            "steps": 50,
        }
        run = new_run(**{**few, **changes})
        assert run.claim_trainer("t", 600)
        judged(run, *[WIDE] * groups)
        closed_long_ago(run)
        return Run.objects.get(pk=run.pk)

    return make


def closed_long_ago(run: Run, days: int = 31) -> None:
    run.groups.update(closed_at=Now() - timedelta(days=days))


def draws_due(run: Run, rule: Retention = MONTH) -> list[int]:
    return list(
        list_groups_due(Run.objects.get(pk=run.pk), rule).values_list("draw_index", flat=True)
    )


def let_go(run: Run, rule: Retention = MONTH) -> ReleaseSize:
    return sum(released(run, rule), ReleaseSize())


def violated() -> dict[str, list[str]]:
    return {name: found for name, found in reconcile().items() if found and name not in NO_ENGINE}


# -- released arrays


def test_ended_run_releases_old_arrays_and_keeps_texts_and_outcomes(sampled):
    run = sampled(2)
    run.stop()
    young = run.groups.get(draw_index=1)
    Group.objects.filter(pk=young.pk).update(closed_at=Now() - timedelta(days=29))
    before = list(
        run.rollouts.order_by("pk").values(
            "text", "stop_reason", "completion_tokens", "first_version", "state"
        )
    )
    octets = sum(
        len(bytes(payload.data)) for payload in RolloutPayload.objects.exclude(rollout__group=young)
    )
    gone = let_go(run)
    assert gone == ReleaseSize(1, 2, octets) and would_go(run, MONTH) == ReleaseSize()
    assert set(RolloutPayload.objects.values_list("rollout__group", flat=True)) == {young.pk}
    assert (
        list(
            run.rollouts.order_by("pk").values(
                "text", "stop_reason", "completion_tokens", "first_version", "state"
            )
        )
        == before
    )
    assert run.releases.get().bytes == octets
    assert violated() == {}


def test_preview_equals_the_release_and_writes_nothing(sampled):
    run = sampled(3)
    run.stop()
    told = would_go(run, MONTH)
    assert told.groups == 3 and RolloutPayload.objects.count() == 6 and not Release.objects.exists()
    assert let_go(run) == told


def test_release_continues_in_several_transactions(sampled, monkeypatch):
    monkeypatch.setattr("apps.buffer.retention.GROUPS_AT_ONCE", 2)
    run = sampled(5)
    run.stop()
    assert [gone.groups for gone in released(run, MONTH)] == [2, 2, 1]
    assert run.releases.count() == 3 and violated() == {}


def test_rolled_back_release_is_made_again(sampled):
    run = sampled(2)
    run.stop()
    with transaction.atomic():
        lost = let_go(run)
        transaction.set_rollback(True)
    assert RolloutPayload.objects.count() == 4 and let_go(run) == lost == ReleaseSize(
        2, 4, lost.bytes
    )


def test_group_needed_since_the_lookup_is_not_released(sampled):
    run = sampled(2)
    run.stop()
    looked_up = draws_due(run)
    groups = list(run.groups.order_by("draw_index").values_list("pk", flat=True))
    Item.objects.create(
        run=run, group_id=groups[0], form="stars", members=[run.rollouts.first().pk]
    )
    assert looked_up == [0, 1] and release_arrays(run, MONTH, groups).groups == 1
    assert set(RolloutPayload.objects.values_list("rollout__group", flat=True)) == {groups[0]}


def test_dropped_group_of_a_live_run_is_released_by_age(sampled):
    run = sampled(2)
    Experience.objects.leave_out(
        run, [run.groups.get(draw_index=0).pk], "stale: older than version 3"
    )
    assert draws_due(run) == [0]


def test_group_is_released_after_the_given_number_of_uses(sampled, trained):
    run = sampled(10)
    for _ in range(5):
        trained(run)
    closed_long_ago(run, days=0)
    assert draws_due(run, Retention(uses=1)) == [
        0,
        1,
        2,
        3,
    ], "the last three updates may have to be repeated"
    assert draws_due(run, Retention(uses=2)) == []
    assert draws_due(run, Retention(days=30, uses=1)) == [0, 1, 2, 3]
    assert draws_due(run, Retention(days=30, uses=2)) == []


# -- kept arrays


def test_ready_and_claimed_groups_are_kept_while_the_run_is_live(sampled):
    run = sampled(4)
    plan_step(run, run.fence)
    assert set(Experience.objects.values_list("state", flat=True)) == {"ready", "claimed"}
    assert draws_due(run) == []
    run.stop()
    assert draws_due(run) == [0, 1, 2, 3]


def test_groups_needed_after_a_crash_are_kept(sampled, trained):
    run = sampled(10, checkpoints={"every": 2, "keep": 2})
    for _ in range(4):
        trained(run)
    assert draws_due(run) == [], (
        "the kept checkpoints may be those of 2 and 4, and 4 may be damaged"
    )
    for _ in range(1):
        trained(run)
    assert draws_due(run) == []


def test_release_respects_the_longest_earlier_interval_of_checkpoints(sampled, trained):
    run = sampled(10, checkpoints={"every": 10, "keep": 2})
    for _ in range(5):
        trained(run)
    run.change_config(None, checkpoints={"every": 1})
    assert draws_due(run) == []


def test_groups_that_may_be_replayed_are_kept_until_they_are_too_old(sampled, trained):
    replay = {"replay": {"name": "uniform", "share": 0.5, "max_uses": 5}}
    run = sampled(12, reading=replay, groups_per_step=4, max_staleness=4)
    for _ in range(4):
        trained(run)
    assert draws_due(run) == [] and groups_again(run)
    Run.objects.filter(pk=run.pk).update(config={**run.config, "max_staleness": 3})
    assert draws_due(run), "version 0 is older than allowed"


def test_released_groups_are_not_replayed_after_the_staleness_limit_is_raised(sampled, trained):
    replay = {"replay": {"name": "uniform", "share": 0.5, "max_uses": 5}}
    run = sampled(12, reading=replay, groups_per_step=4, max_staleness=4)
    for _ in range(4):
        trained(run)
    was = run.config
    Run.objects.filter(pk=run.pk).update(config={**was, "max_staleness": 3})
    gone = set(draws_due(run))
    let_go(run)
    Run.objects.filter(pk=run.pk).update(config={**was, "max_staleness": 40})
    run = Run.objects.get(pk=run.pk)
    again = set(Group.objects.filter(pk__in=groups_again(run)).values_list("draw_index", flat=True))
    assert again and gone and not again & gone


def test_group_that_can_be_refined_again_is_kept(sampled):
    run = sampled(1)
    group = run.groups.get()
    group.experiences.all().delete()
    Group.objects.filter(pk=group.pk).update(
        state="dropped", reason="failed 3 times: ZeroDivisionError"
    )
    assert draws_due(run) == []
    Group.objects.filter(pk=group.pk).update(reason="no spread")
    assert draws_due(run) == [0]


def test_open_group_is_kept(sampled, finish):
    run = sampled(0)
    finish(run, ["12345"])
    closed_long_ago(run)
    assert draws_due(run) == []


def test_group_with_an_open_rating_item_is_kept(sampled):
    run = sampled(1)
    run.stop()
    group = run.groups.get()
    item = Item.objects.create(
        run=run, group=group, form="stars", members=[group.rollouts.first().pk]
    )
    assert draws_due(run) == []
    Item.objects.filter(pk=item.pk).update(state="done")
    assert draws_due(run) == [0]


def test_rollout_edited_by_a_user_is_kept_forever(sampled, alice):
    run = sampled(1)
    run.stop()
    act = {"by": alice, "kind": "edit", "client_uuid": uuid.uuid4(), "state": "done"}
    Intervention.objects.create(rollout=run.rollouts.first(), **act)
    assert draws_due(run) == []


def test_expert_reply_is_kept_forever(sampled):
    run = sampled(1)
    task = run.groups.get().task
    group = Group.objects.create(run=run, task=task, size=0, state="admitted", opened_version=0)
    expert = Rollout.objects.create(
        run=run, group=group, sample_index=0, origin="expert", state="finished", text="12345"
    )
    RolloutPayload.objects.create(rollout=expert, data=b"")
    run.stop()
    closed_long_ago(run)
    let_go(run)
    assert list(RolloutPayload.objects.values_list("rollout", flat=True)) == [expert.pk]


def test_all_groups_are_kept_until_a_replay_has_copied_its_data(sampled, trained, new_run):
    run = sampled(2)
    trained(run)
    run.stop()
    replaying = new_run(replay={"run": run.slug, "last_step": 1})
    assert draws_due(run) == []
    replaying.stop()
    assert draws_due(run) == [0, 1]


def test_rollout_used_as_an_expert_row_is_kept_while_the_run_is_live(sampled):
    run = sampled(1)
    rollout = run.rollouts.first()
    Experience.objects.update(state="dropped", reason="stale: older than version 2")
    assert draws_due(run) == [0]
    Experience.objects.create(
        run=run, group=rollout.group, rollout=rollout, kind="expert", advantage=0, weight_version=0
    )
    assert draws_due(run) == []


# -- concurrent jobs


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_jobs_release_each_group_once(sampled, monkeypatch):
    monkeypatch.setattr("apps.buffer.retention.GROUPS_AT_ONCE", 1)
    run = sampled(8)
    run.stop()

    def work(_: int) -> ReleaseSize:
        try:
            return let_go(run)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(work, range(2)))
    assert sum(both, ReleaseSize()).rollouts == 16 and sum(both, ReleaseSize()).groups == 8
    assert violated() == {}


# -- rules, job and command


def test_nothing_is_released_without_a_rule(sampled, settings):
    run = sampled(1)
    run.stop()
    assert settings.RETENTION_DAYS == 0 and find_retention_rule(run) is None
    retain()
    assert RolloutPayload.objects.count() == 2


def test_default_rule_of_the_installation_applies_to_ended_runs_without_a_rule(sampled, settings):
    settings.RETENTION_DAYS = 40
    run = sampled(1)
    own = sampled(1, retention={"uses": 3})
    assert (find_retention_rule(run), find_retention_rule(own)) == (None, Retention(uses=3))
    run.stop()
    own.stop()
    assert (find_retention_rule(run), find_retention_rule(own)) == (
        Retention(days=40),
        Retention(uses=3),
    )


def test_job_follows_the_rule_of_each_run(sampled):
    run = sampled(2, retention={"days": 30})
    other = sampled(1, retention={"days": 60})
    run.stop()
    other.stop()
    retain()
    retain()
    assert set(RolloutPayload.objects.values_list("rollout__run", flat=True)) == {other.pk}


def test_rule_can_be_set_on_a_live_run(sampled):
    run = sampled(1)
    run.change_config(None, retention={"days": 30})
    assert find_retention_rule(run) == MONTH


@pytest.mark.parametrize("wrong", [{}, {"days": 0}, {"uses": 0}, {"days": 1, "hours": 3}])
def test_invalid_rule_is_refused_by_field(wrong):
    with pytest.raises(ConfigError) as refused:
        parse_config({**GOOD, "retention": wrong})
    assert next(iter(refused.value.problems)).startswith("retention")


def test_command_previews_first_and_then_deletes(sampled, capsys):
    run = sampled(2)
    run.stop()
    call_command("retention", run.slug, days=30, dry_run=True)
    assert "would be deleted: arrays of 4 rollouts in 2 groups" in capsys.readouterr().out
    assert RolloutPayload.objects.count() == 4
    call_command("retention", run.slug, days=30)
    assert "deleted: arrays of 4 rollouts in 2 groups" in capsys.readouterr().out
    assert not RolloutPayload.objects.exists()


def test_command_without_a_rule_explains_how_to_set_one(run):
    with pytest.raises(CommandError, match="RFTWEB_RETENTION_DAYS"):
        call_command("retention")
    with pytest.raises(CommandError, match="need a run"):
        call_command("retention", days=3)
    with pytest.raises(CommandError, match="--days"):
        call_command("retention", run.slug, days=0)


# -- readers of released arrays


@pytest.fixture
def bare(sampled, trained) -> Run:
    """Return an ended run after an update, without arrays."""
    run = sampled(2)
    trained(run)
    run.stop()
    assert let_go(run).rollouts == 4
    return run


def test_reading_released_arrays_raises_an_error_with_the_date(bare):
    rollout = bare.rollouts.first()
    with pytest.raises(ArraysReleased, match=r"deleted on \d{4}-\d\d-\d\d by retention"):
        _ = rollout.tokens
    assert rollout.tokens_if_kept is None


def test_pages_report_released_arrays_and_show_the_text(bare, client, alice):
    client.force_login(alice)
    rollout = bare.rollouts.first()
    page = client.get(reverse("rollout", args=[rollout.pk]))
    assert (
        page.status_code == 200
        and "Retention deleted the tokens and logprobs on" in page.content.decode()
        and rollout.text in page.content.decode()
    )
    page = client.get(reverse("run-buffer", args=[bare.project.slug, bare.slug]))
    assert page.status_code == 200 and "logprobs of 4 rollouts" in page.content.decode()


def test_dry_run_of_a_pipeline_works_without_arrays(bare):
    assert dry_run(bare, ()).groups == 2


def test_replay_of_released_rollouts_is_refused(bare):
    with pytest.raises(NothingToReplay, match="4 rollouts of steps 1 to 1"):
        propose(bare)


# -- the ledger


def test_reconcile_finds_released_arrays_that_still_exist(bare):
    RolloutPayload.objects.create(rollout=bare.rollouts.first(), data=b"")
    assert [line for line in deleted_arrays_are_not_needed() if "still exist" in line]


def test_reconcile_finds_a_step_without_its_arrays(sampled):
    run = sampled(1)
    Rollout.objects.filter(pk=run.rollouts.first().pk).update(arrays_released_at=Now())
    words = " ".join(deleted_arrays_are_not_needed())
    assert (
        "but a step still needs them" in words
        and "the counter has 0 rollouts without arrays, the rows 1" in words
    )


def test_reconcile_finds_released_expert_text_and_open_groups(sampled, finish):
    run = sampled(0)
    [group] = finish(run, ["12345"])
    Rollout.objects.filter(pk=group.rollouts.first().pk).update(
        arrays_released_at=Now(), origin="expert"
    )
    words = " ".join(deleted_arrays_are_not_needed())
    assert "contain text by people" in words and "its group is scoring" in words
