"""The admin site shows every table, and cannot change the ledger's rows."""

import pytest
from django.apps import apps
from django.urls import reverse

OURS = sorted(
    (m for m in apps.get_models() if m.__module__.startswith("apps.")), key=lambda m: m._meta.label
)
LEDGER = ["runs.run", "rollouts.rollout", "rewards.reward", "buffer.experience", "feedback.rating"]


@pytest.mark.parametrize("model", OURS, ids=lambda m: m._meta.label_lower)
def test_every_table_can_be_viewed(client, seeded, admin_user, model):
    client.force_login(admin_user)
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    assert client.get(reverse(f"{name}_changelist")).status_code == 200
    if row := model._base_manager.order_by("-pk").first():
        assert client.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200


@pytest.mark.parametrize("label", LEDGER)
def test_ledger_rows_cannot_be_added_in_the_admin_site(client, admin_user, label):
    client.force_login(admin_user)
    assert client.get(reverse(f"admin:{label.replace('.', '_')}_add")).status_code == 403


def test_run_can_be_viewed_but_not_changed_in_the_admin_site(client, seeded, admin_user):
    client.force_login(admin_user)
    address = reverse("admin:runs_run_change", args=[seeded.run.pk])
    assert (
        client.get(address).status_code == 200
        and client.post(address, {"state": "stopped"}).status_code == 403
    )


def test_members_cannot_open_the_admin_site(client, seeded):
    client.force_login(seeded.alice)
    assert client.get(reverse("admin:index")).status_code == 302
