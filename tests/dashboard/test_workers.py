"""The page of workers: which are active, what they do for which run, what is due, and who may give
them orders.
"""

import pytest
from django.contrib.auth.models import Permission
from django.db.models.functions import Now
from django.urls import reverse

from apps.accounts.models import AuditEntry, User
from apps.dashboard import log_search
from apps.rollouts.models import Group
from apps.runs import worker_registry
from apps.runs.models import LogLine, Run, StaleFence, Worker, after
from tests.plugins.sources import BROKEN, SCORER

MINUTE = 60


@pytest.fixture
def explorer(db) -> Worker:
    return Worker.objects.create(
        key="explorer@here:71:5",
        role=Worker.Role.EXPLORER,
        host="here",
        pid=71,
        engine="transformers",
    )


@pytest.fixture
def group(run, explorer) -> Group:
    """Open a group that the explorer samples."""
    return Group.open(run, explorer.key, MINUTE, 1, 0)[0]


def text(client, person, name: str = "workers", *parts: object) -> str:
    client.force_login(person)
    return client.get(reverse(name, args=parts)).content.decode()


def told(client, person, worker: Worker, verb: str, **fields: str):
    client.force_login(person)
    return client.post(reverse("worker-order", args=[worker.pk, verb]), fields)


def test_worker_pages_show_runs_only_to_members_of_their_project(
    client, alice, carol, run, explorer
):
    explorer.beat(
        f"{run.slug}: 8 rollouts", {run.pk: "8 rollouts, 120 tok/s"}, rss_bytes=2**30, cpu_share=1.5
    )
    for parts in (
        ("workers",),
        ("worker", explorer.pk),
        ("workers-now",),
        ("worker-now", explorer.pk),
    ):
        mine = text(client, alice, *parts)
        theirs = text(client, carol, *parts)
        assert run.slug in mine and "8 rollouts, 120 tok/s" in mine
        assert (
            run.slug not in theirs
            and "120 tok/s" not in theirs
            and "with a run of another project" in theirs
        )


def test_worker_pages_show_memory_processor_gpu_and_code_version(client, alice, explorer):
    Worker.objects.filter(pk=explorer.pk).update(details={"code": "4f2a", "torch": "2.9"})
    explorer.beat(
        rss_bytes=2**30,
        cpu_share=1.5,
        gpu="H100",
        gpu_bytes=2**33,
        gpu_total_bytes=2**34,
        gpu_share=0.25,
    )
    shown = text(client, alice)
    assert "150 %" in shown and "50 %" in shown and "25 % busy" in shown
    assert "4f2a" in text(client, alice, "worker", explorer.pk)


@pytest.mark.parametrize(
    ("fields", "standing"),
    [
        ({}, "alive"),
        ({"order": "drain"}, "draining"),
        ({"order": "quarantine"}, "quarantined"),
        ({"heartbeat_at": after(-45)}, "silent"),
        ({"stopped_at": Now(), "stopped_reason": "it was stopped"}, "stopped"),
        ({"stopped_at": Now(), "stopped_reason": "silent: no heartbeat for 60 s"}, "dead"),
    ],
)
def test_standing_of_a_worker_is_one_word(explorer, fields, standing):
    Worker.objects.filter(pk=explorer.pk).update(**fields)
    explorer.refresh_from_db()
    assert explorer.standing == standing


def test_due_work_is_counted_from_the_rows(client, alice, run, group):
    shown = text(client, alice, "workers-now")
    row = shown[shown.index("groups to be sampled") :][:200]
    assert '<td class="r num">1</td><td class="r num hide-s">1</td>' in row


def due_row(client, person, what: str) -> str:
    shown = text(client, person, "workers-now")
    return shown[shown.index(what) :][:200]


def test_expired_lease_does_not_count_as_being_worked_on(client, alice, run, group):
    Group.objects.update(lease_until=after(-1))
    row = due_row(client, alice, "groups to be sampled")
    assert '<td class="r num">1</td><td class="r num hide-s">0</td>' in row


def test_only_runs_that_a_trainer_may_take_count_as_without_a_trainer(client, alice, new_run):
    _, evaluation, held, lapsed = (new_run() for _ in range(4))
    Run.objects.filter(pk=evaluation.pk).update(is_evaluation=True)
    Run.objects.filter(pk=held.pk).update(lease_until=after(MINUTE))
    Run.objects.filter(pk=lapsed.pk).update(lease_until=after(-1))
    assert '<td class="r num">2</td>' in due_row(client, alice, "runs without a trainer")


def test_device_shows_the_gpu_in_use_and_why_a_value_cannot_be_read(client, alice, explorer):
    Worker.objects.filter(pk=explorer.pk).update(device="cpu")
    explorer.beat(rss_bytes=2**30, gpu="H100 MIG 1g", gpu_unread="utilisation: Not Supported")
    shown = text(client, alice, "worker", explorer.pk)
    assert "<dd>H100 MIG 1g</dd>" in shown
    assert "utilisation: Not Supported" in shown


def test_worker_page_searches_only_the_newest_log_lines(client, cast, run, explorer, monkeypatch):
    monkeypatch.setattr(log_search, "GLANCED_AT", 2)
    LogLine.objects.create(event="sampled", run=run, level=20, at=Now(), worker=explorer.key)
    assert "<b>sampled</b>" in text(client, cast.alice, "worker", explorer.pk)
    for _ in range(2):
        LogLine.objects.create(event="of_no_run", level=20, at=Now(), worker=explorer.key)
    assert "<b>sampled</b>" not in text(client, cast.alice, "worker", explorer.pk)
    assert "<b>of_no_run</b>" in text(client, cast.admin, "worker", explorer.pk)


def test_page_says_that_redis_does_not_respond(client, alice, dead_redis):
    shown = text(client, alice)
    assert "Redis does not respond" in shown and "unavailable" in shown


def test_page_without_workers_shows_how_to_start_them(client, alice):
    assert "manage.py up" in text(client, alice)


@pytest.mark.parametrize("verb", ["drain", "quarantine", "put-back"])
def test_project_owner_cannot_give_orders_to_workers(client, alice, explorer, verb):
    assert told(client, alice, explorer, verb, name="71").status_code == 403
    assert "Quarantine" not in text(client, alice, "worker", explorer.pk)
    explorer.refresh_from_db()
    assert explorer.order == ""


def test_staff_need_a_permission_to_give_orders_to_workers(client, alice, explorer):
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    assert told(client, alice, explorer, "drain", reason="disk").status_code == 403
    alice.user_permissions.add(Permission.objects.get(codename="change_worker"))
    told(client, alice, explorer, "drain", reason="disk")
    explorer.refresh_from_db()
    assert explorer.order == "drain"


def test_an_order_is_on_the_audit_log_with_its_reason(client, admin, explorer):
    told(client, admin, explorer, "drain", reason="its disk is full")
    told(client, admin, explorer, "put-back")
    drained, back = AuditEntry.objects.filter(action__startswith="worker").order_by("pk")
    assert (drained.action, drained.by, drained.details) == (
        "worker drained",
        admin,
        {"reason": "its disk is full"},
    )
    assert back.action == "worker put back"
    explorer.refresh_from_db()
    assert (explorer.order, explorer.ordered_by) == ("", "root")


def test_quarantine_with_a_wrong_process_number_changes_nothing(client, admin, explorer, group):
    told(client, admin, explorer, "quarantine", name="72")
    explorer.refresh_from_db()
    group.refresh_from_db()
    assert explorer.order == "" and group.lease_owner == explorer.key


def test_quarantine_fences_only_what_the_worker_holds(client, admin, explorer, run, group, new_run):
    Run.objects.filter(pk=run.pk).update(
        lease_owner=explorer.key, lease_until=after(MINUTE), fence=4
    )
    other = Group.open(new_run(), "explorer@there:1:1", MINUTE, 1, 0)[0]
    told(client, admin, explorer, "quarantine", name="71")
    with pytest.raises(StaleFence):
        group.fail("late")
    run.refresh_from_db()
    other_now = Group.objects.get(pk=other.pk)
    assert (run.lease_until, run.fence) == (None, 5)
    assert (other_now.lease_owner, other_now.fence) == ("explorer@there:1:1", other.fence)
    [again] = Group.objects.claim(Group.State.SAMPLING, "explorer@there:1:1", MINUTE, 1, run)
    assert (again.pk, again.attempts) == (group.pk, 0)


def test_drained_worker_gets_no_work_even_before_it_reads_the_order(admin, explorer, run, finish):
    finish(run)
    explorer.tell(Worker.Order.DRAIN, admin)
    assert Group.open(run, explorer.key, MINUTE, 1, 0) == []
    assert Group.objects.claim(Group.State.SCORING, explorer.key, MINUTE, 1) == []
    assert not run.claim_trainer(explorer.key, MINUTE)
    assert Group.objects.claim(Group.State.SCORING, "another", MINUTE, 1) and run.claim_trainer(
        "another", MINUTE
    )


def test_stopped_worker_takes_no_order(client, admin, explorer):
    explorer.stop()
    told(client, admin, explorer, "drain")
    explorer.refresh_from_db()
    assert (explorer.order, explorer.standing) == ("", "stopped")


@pytest.fixture
def beside(db) -> dict[str, Worker]:
    """Create a web process and a beat process."""
    return {
        role: Worker.every.create(key=f"{role}@desk:9:9", role=role, host=f"the-{role}-host", pid=9)
        for role in ("web", "beat")
    }


def test_web_and_beat_processes_are_shown_to_every_user(client, carol, beside):
    beside["web"].beat("1 request and 4 sockets open, 2.5 requests/s", rss_bytes=2**30)
    beside["beat"].beat("schedules 8 jobs")
    shown = text(client, carol)
    assert (
        "the-web-host:9" in shown and "4 sockets open" in shown and "No worker is running" in shown
    )
    assert "schedules 8 jobs" in shown and "no sweep yet" in shown
    assert "the-beat-host:9" in text(client, carol, "worker", beside["beat"].pk)
    assert text(client, carol, "worker-logs", beside["web"].pk)


def test_every_page_warns_when_the_control_plane_is_late(client, carol, beside):
    Worker.every.update(started_at=after(-90))
    Worker.every.filter(role="beat").update(swept_at=after(-75))
    assert "Background jobs are late" in (shown := text(client, carol, "tasksets"))
    assert "No sweep for 7" in shown and "No control worker is running" in shown
    Worker.every.filter(role="beat").update(swept_at=after(-5))
    assert "Background jobs are late" not in text(client, carol, "tasksets")


def test_stopped_process_is_listed_with_the_reason(client, carol, beside):
    beside["web"].stop()
    shown = text(client, carol)
    assert "the-web-host:9" in shown[shown.index("Stopped workers") :] and "it was stopped" in shown


def test_run_page_lists_no_web_or_beat_process(client, alice, run, explorer, beside):
    shown = text(client, alice, "run", run.project.slug, run.slug)
    assert "here:71" in shown and "the-web-host" not in shown and "the-beat-host" not in shown


@pytest.mark.parametrize("verb", ["drain", "quarantine", "put-back"])
def test_web_process_cannot_be_drained_or_quarantined(client, admin, beside, verb):
    answer = told(client, admin, beside["web"], verb, name="9")
    shown = client.get(answer.url).content.decode()
    assert (
        "can’t drain or quarantine it" in shown
        and "data-opens" not in shown[shown.index('id="now"') :]
    )
    assert not AuditEntry.objects.filter(action__startswith="worker").exists()


def test_page_without_plugins_does_not_mention_them(client, carol, explorer):
    assert "Plugins" not in text(client, carol, "workers-now")


def test_rejected_plugins_are_listed_with_the_reason(client, carol, install):
    folder = install(polite=SCORER, broken=BROKEN)
    shown = text(client, carol, "workers-now")
    assert "scorer polite" in shown and "scorer broken" in shown
    assert "No module named &#x27;no_such_module&#x27;" in shown and str(folder) not in shown


def test_process_with_another_plugin_version_is_listed(client, carol, explorer, install):
    install(polite=SCORER)
    others = {"scorer polite": "2", "scorer old": "1"}
    Worker.objects.filter(pk=explorer.pk).update(details={"plugins": others})
    shown = text(client, carol, "workers-now")
    assert "explorer here:71: 2" in shown and "explorer here:71: 1" in shown
    assert "scorer polite" in text(client, carol, "worker", explorer.pk)
    others = {"scorer polite": "3"}
    Worker.objects.filter(pk=explorer.pk).update(details={"plugins": others})
    assert "another version" not in text(client, carol, "workers-now")


def test_worker_details_list_its_plugins(db, install):
    install(polite=SCORER, broken=BROKEN)
    worker = worker_registry.enter(Worker.Role.SCORER)
    told = {"scorer polite": "3", "scorer broken": "refused"}
    assert worker.details["plugins"] == told and worker.details["python"]
