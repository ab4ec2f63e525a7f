"""The admin site: its first page, storage, lists with few queries, and audited actions."""

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.ledger_admin import InfinitePaginator, LedgerAdmin, PlainAdmin
from apps.accounts.models import AuditEntry, Membership, Token, User
from apps.rollouts.models import Rollout
from apps.runs.models import Metric, Run, Worker
from rftweb.administration import look, storage
from rftweb.administration.scorers import described
from rftweb.administration.storage import folders, tables


@pytest.fixture
def staff(client, admin_user):
    client.force_login(admin_user)
    return client


def html(client, name: str, *arguments: object, **query: object) -> str:
    answer = client.get(reverse(name, args=arguments), query)
    assert answer.status_code == 200
    return answer.content.decode()


def newest_act() -> AuditEntry:
    return AuditEntry.objects.order_by("-pk").first()


# -- pages


def test_first_page_shows_the_state_of_the_installation(staff, seeded):
    worker = Worker.objects.create(key="scorer@far:1", role="scorer", host="far", pid=1)
    Worker.objects.filter(pk=worker.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    page = html(staff, "admin:index")
    assert "running, 0 paused" in page and "staff with a second factor" in page and "0 of 1" in page
    assert "Process scorer@far:1 stopped sending heartbeats" in page
    assert "run started" in page and "run lab/tone-7" in page  # the newest actions


def test_number_of_queries_does_not_grow_with_rows(staff, seeded):
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            html(staff, "admin:index")
            html(staff, "admin-storage")
        return len(queries)

    asked()
    before = asked()
    for number in range(20):
        AuditEntry.record("tried", f"thing {number}", seeded.alice, seeded.run.project)
        Worker.objects.create(key=f"explorer@far:{number}", role="explorer", host="far", pid=1)
    assert asked() == before


def test_staff_see_only_what_their_permissions_allow(client, bob, run):
    User.objects.filter(pk=bob.pk).update(is_staff=True)
    run.pause(bob)
    client.force_login(bob)
    page = html(client, "admin:index")
    assert "no permissions yet" in page and "run paused" not in page and "Rollouts" not in page
    assert (
        client.get(reverse("admin-storage")).status_code
        == client.get(reverse("admin-scorers")).status_code
        == 403
    )


def test_sidebar_links_every_registered_table_once(rf, admin_user):
    request = rf.get("/admin/")
    request.user = admin_user
    links = [str(item["link"]) for one in look.navigation(request) for item in one["items"]]
    registered = {
        reverse(f"admin:{m._meta.app_label}_{m._meta.model_name}_changelist")
        for m in admin.site._registry
    }
    assert registered <= set(links) and len(links) == len(set(links))


def test_storage_page_shows_table_sizes_and_what_retention_would_delete(staff, seeded):
    seeded.run.change_config(seeded.alice, retention={"uses": 1})
    page = html(staff, "admin-storage")
    sizes = [one["total"] for one in tables()]
    assert sizes == sorted(sizes, reverse=True) and all(
        str(one["name"]) in page for one in tables()
    )
    assert "lab/tone-7" in page and "once 1 steps used it" in page
    assert "can be deleted now" in html(staff, "admin-storage", run=seeded.run.pk)
    for wrong in (seeded.run.pk + 1, "x", "9" * 30):
        assert staff.get(reverse("admin-storage"), {"run": wrong}).status_code == 404


def test_scorers_page_lists_scorers_by_name(staff):
    page = html(staff, "admin-scorers")
    assert {"tone", "sort"} <= {one["name"] for one in described()} and all(
        one["words"] for one in described()
    )
    assert all(one["name"] in page for one in described())


def test_scorers_page_lists_reward_models_with_the_names_to_use(staff, new_run):
    run = new_run()
    Run.objects.filter(pk=run.pk).update(
        config={**run.config, "algorithm": {"name": "reward_model"}}, published_version=3
    )
    page = html(staff, "admin-scorers")
    assert "model:run-0" in page and "model:run-0@3" in page
    Run.objects.filter(pk=run.pk).update(state="completed")
    assert "final weights" in html(staff, "admin-scorers")


def test_storage_page_counts_files_up_to_a_limit(staff, settings, tmp_path, monkeypatch):
    settings.WEIGHTS_ROOT = tmp_path
    settings.IMPORTS_ROOT = tmp_path / "imports"
    for name in (
        "run-1/checkpoints/step-2/a.bin",
        "run-2/checkpoints/step-4/b.bin",
        "exports/7/c.zip",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"12345")
    assert [(one["files"], one["bytes"]) for one in folders()] == [(2, 10), (1, 5), (0, 0)]
    page = html(staff, "admin-storage")
    assert "Checkpoints" in page and "checkpoints.keep" in page
    monkeypatch.setattr(storage, "MAX_FILES", 1)
    assert [(one["files"], one["is_cut"]) for one in folders()] == [
        (1, True),
        (1, False),
        (0, False),
    ]


# -- lists


def test_lists_of_growing_tables_run_no_count_query(staff, seeded):
    for model, its in admin.site._registry.items():
        with CaptureQueriesContext(connection) as queries:
            html(staff, f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        assert isinstance(its, PlainAdmin), f"{model} is styled otherwise"
        counting = [q["sql"] for q in queries if "COUNT(*)" in q["sql"]]
        assert not counting or its.paginator is not InfinitePaginator, model
    small = {
        model._meta.label
        for model, its in admin.site._registry.items()
        if its.paginator is not InfinitePaginator
    }
    assert small == {
        "accounts.User",
        "accounts.Project",
        "accounts.Token",
        "auth.Group",
        "environments.Environment",
        "mfa.Authenticator",
    }


def test_large_tables_are_filtered_and_searched_among_their_newest_rows(staff, seeded, monkeypatch):
    url = "admin:rollouts_rollout_changelist"
    last = Rollout.objects.order_by("-pk").first()
    assert f">{last.pk}</a>" in html(staff, url)
    monkeypatch.setattr("apps.accounts.ledger_admin.NEWEST", 3)
    with CaptureQueriesContext(connection) as queries:
        html(staff, url, state="finished")
    assert any(f'"rollouts_rollout"."id" > {last.pk - 3}' in q["sql"] for q in queries)
    seen = staff.get(reverse("admin:accounts_auditentry_changelist"), {"q": "no such act"})
    assert seen.status_code == 200 and "newest" in seen.content.decode()


def test_large_tables_cannot_be_sorted_by_a_column(staff, seeded):
    with CaptureQueriesContext(connection) as queries:
        html(staff, "admin:runs_metric_changelist", o="4")
    assert not [q["sql"] for q in queries if 'ORDER BY "runs_metric"."value"' in q["sql"]]
    large = [
        model
        for model, its in admin.site._registry.items()
        if isinstance(its, LedgerAdmin) and its.is_large
    ]
    assert {Metric, Rollout, AuditEntry} <= set(large)


# -- actions


def test_revoked_token_is_refused_and_the_revocation_is_audited(staff, alice, client):
    token, secret = Token.issue(alice, "laptop", ["read"])
    staff.post(
        reverse("admin:accounts_token_changelist"),
        {"action": "revoke", "_selected_action": [token.pk]},
    )
    token.refresh_from_db()
    assert (
        token.revoked_at
        and client.__class__()
        .get("/metrics", headers={"Authorization": f"Bearer {secret}"})
        .status_code
        == 401
    )
    entry = newest_act()
    assert (entry.action, entry.name) == ("token revoked", "admin") and "laptop" in entry.target
    assert secret not in str(entry.details) and token.digest not in str(entry.details)


def test_token_can_be_neither_changed_nor_deleted(staff, alice):
    token, _ = Token.issue(alice, "laptop", ["read"])
    staff.post(
        reverse("admin:accounts_token_change", args=[token.pk]),
        {"name": "mine", "scopes": '["steer"]'},
    )
    token.refresh_from_db()
    assert (token.name, token.scopes) == ("laptop", ["read"])
    assert (
        staff.post(
            reverse("admin:accounts_token_delete", args=[token.pk]), {"post": "yes"}
        ).status_code
        == 403
    )


def roles(project, *rows: dict) -> dict:
    """Return the form of a project with these rows of members."""
    kept = sum("id" in row for row in rows)
    form = {
        "slug": project.slug,
        "title": project.title,
        "memberships-TOTAL_FORMS": len(rows),
        "memberships-INITIAL_FORMS": kept,
    }
    for n, row in enumerate(rows):
        form |= {
            f"memberships-{n}-{name}": value
            for name, value in {"project": project.pk, **row}.items()
        }
    return form


def test_role_changes_of_members_are_audited(staff, project, alice, bob, carol):
    of = {m.user: m.pk for m in Membership.objects.all()}
    form = roles(
        project,
        {"id": of[alice], "user": alice.pk, "role": "owner", "DELETE": "on"},
        {"id": of[bob], "user": bob.pk, "role": "researcher"},
        {"user": carol.pk, "role": "owner"},
    )
    assert (
        staff.post(reverse("admin:accounts_project_change", args=[project.pk]), form).status_code
        == 302
    )
    assert dict(Membership.objects.values_list("user__username", "role")) == {
        "bob": "researcher",
        "carol": "owner",
    }
    acts = AuditEntry.objects.filter(project=project, name="admin").values_list(
        "action", "target", "details"
    )
    assert sorted(acts) == [
        (
            "role changed",
            "user bob",
            {"before": {"role": "rater"}, "after": {"role": "researcher"}},
        ),
        ("role given", "user carol", {"before": {"role": None}, "after": {"role": "owner"}}),
        ("role taken", "user alice", {"before": {"role": "owner"}}),
    ]


def test_last_owner_cannot_be_removed_and_the_page_explains_why(staff, project, alice):
    membership = Membership.objects.get(user=alice)
    form = roles(project, {"id": membership.pk, "user": alice.pk, "role": "owner", "DELETE": "on"})
    address = reverse("admin:accounts_project_change", args=[project.pk])
    answer = staff.post(address, form, follow=True)
    assert "Make another member an owner first" in answer.content.decode()
    assert Membership.objects.filter(user=alice, role="owner").exists()


def test_change_of_a_users_rights_is_audited_without_the_password(staff, bob):
    form = {"username": "bob", "is_active": "on", "is_staff": "on", "rating_keys": "{}"}
    assert staff.post(reverse("admin:accounts_user_change", args=[bob.pk]), form).status_code == 302
    bob.refresh_from_db()
    assert bob.is_staff
    entry = newest_act()
    assert (entry.action, entry.target, entry.name) == ("user changed", "user bob", "admin")
    assert entry.details == {"before": {"is_staff": False}, "after": {"is_staff": True}}


def test_password_change_is_audited_without_the_password(staff, bob):
    word = "a battery of horses, staple"
    form = {"password1": word, "password2": word, "usable_password": "true"}
    assert (
        staff.post(reverse("admin:auth_user_password_change", args=[bob.pk]), form).status_code
        == 302
    )
    bob.refresh_from_db()
    assert bob.check_password(word)
    assert newest_act().action == "user password changed"
    assert word not in str(list(AuditEntry.objects.values()))


def test_second_factor_is_shown_without_its_secret_and_its_deletion_is_audited(staff, bob):
    factor = Authenticator.objects.create(
        user=bob, type=Authenticator.Type.TOTP, data={"secret": "JBSWY3DPEHPK3PXP"}
    )
    assert "JBSWY3DPEHPK3PXP" not in html(staff, "admin:mfa_authenticator_change", factor.pk)
    staff.post(reverse("admin:mfa_authenticator_delete", args=[factor.pk]), {"post": "yes"})
    assert not Authenticator.objects.exists()
    assert (newest_act().action, newest_act().target) == ("second factor deleted", "user bob")


def test_admin_site_redirects_to_the_sites_login(client, db):
    answer = client.get(reverse("admin:index"), follow=True)
    assert answer.redirect_chain[-1][0].startswith(reverse("account_login"))


def test_project_slug_cannot_be_changed_after_creation(staff, project):
    membership = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    assert 'name="slug"' in html(staff, "admin:accounts_project_add")
    address = reverse("admin:accounts_project_change", args=[project.pk])
    assert (
        staff.post(address, {"slug": "other", "title": "Renamed", **membership}).status_code == 302
    )
    project.refresh_from_db()
    assert (project.slug, project.title) == ("lab", "Renamed")
