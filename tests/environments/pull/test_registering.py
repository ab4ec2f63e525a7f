"""Registering an environment that we call: by function, by command, and in the admin site."""

import io

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.urls import reverse

from apps.environments.models import Environment
from apps.environments.pull import registering
from apps.environments.pull.registering import register_service

pytestmark = pytest.mark.django_db


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command("environment", *map(str, arguments), stdout=out)
    return out.getvalue()


def refusal(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"address": "http://127.0.0.1:1/"}, "address", "inside this network"),
        ({"address": "http://169.254.169.254/"}, "address", "inside this network"),
        ({"address": "ws://env.example.org/"}, "address", "must begin with http://, https://"),
        ({"address": "http://no-such-host.invalid/"}, "address", "cannot be resolved"),
        ({"kind": "push", "address": "http://env.example.org/"}, "address", "leave it empty"),
        ({"kind": "gymnasium", "address": "os:Lake-v1"}, "address", "has no environment"),
    ],
)
def test_invalid_environment_is_rejected_at_its_field(project, fields, field, reason):
    if fields.get("kind") == "gymnasium":
        pytest.importorskip(
            "gymnasium", reason="gymnasium is not installed: scripts/setup --with gymnasium"
        )
    with pytest.raises(ValidationError) as caught:
        register_service(project, **({"name": "maze", "kind": "http"} | fields))
    assert reason in caught.value.message_dict[field][0]
    assert not Environment.objects.exists()


def test_missing_gymnasium_is_reported_with_the_install_command(project, monkeypatch):
    monkeypatch.setattr(registering.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValidationError, match="scripts/setup --with gymnasium"):
        register_service(project, "lake", "gymnasium", "FrozenLake-v1")


def test_reward_range_of_a_gymnasium_is_known(project):
    pytest.importorskip(
        "gymnasium", reason="gymnasium is not installed: scripts/setup --with gymnasium"
    )
    taxi = register_service(project, "taxi", "gymnasium", "Taxi-v4")
    assert (taxi.reward_low, taxi.reward_high) == (-10.0, 20.0)


def test_command_adds_checks_and_lists_environments(service, project):
    added = said(
        "add",
        "maze",
        "--kind",
        "http",
        "--address",
        service.address,
        "--reward-low",
        "-1",
        "--options",
        '{"size": 5}',
    )
    assert "environment maze: http at" in added and "'guess'" in added
    environment = Environment.objects.get()
    assert (environment.reward_low, environment.options) == (-1.0, {"size": 5})
    assert service.heard("/reset")[0]["options"] == {"size": 5}
    assert "'guess'" in said("check", "maze") and service.address in said("list")


def test_command_reports_the_invalid_option(service, project):
    assert "--address: 127.0.0.2 is 127.0.0.2, inside" in refusal(
        "add", "m", "--kind", "http", "--address", "http://127.0.0.2"
    )
    wrong = refusal(
        "add", "My maze", "--kind", "http", "--address", service.address, "--turn-limit", "0"
    )
    assert "name: use small letters" in wrong and not Environment.objects.exists()
    assert "no environment 'maze'" in refusal("check", "maze")


def test_environment_that_does_not_respond_is_registered_with_a_warning(service, project):
    address = service.address.replace("/play", "/elsewhere")
    assert "it was added, but it does not respond" in refusal(
        "add", "maze", "--kind", "http", "--address", address
    )
    assert Environment.objects.get().address == address


def form_of(project, **changes: object) -> dict:
    fields = {
        "project": project.pk,
        "name": "maze",
        "version": "1",
        "kind": "http",
        "address": "",
        "options": "{}",
        "title": "",
        "observation_schema": "{}",
        "action_schema": '{"type": "string"}',
        "description": "",
        "reward_low": 0,
        "reward_high": 1,
        "turn_limit": 4,
        "turn_s": 5,
        "person_s": 60,
        "episode_s": 60,
        "reward_s": 0,
        "parallel": 2,
    }
    return fields | changes


def test_admin_rejects_a_forbidden_address_and_checks_an_environment_on_request(
    client, admin, project, service
):
    client.force_login(admin)
    add = reverse("admin:environments_environment_add")
    refused = client.post(
        add, form_of(project, address="http://10.0.0.1/", observation_schema='{"type": "string"}')
    )
    assert "inside this network" in refused.content.decode() and not Environment.objects.exists()
    client.post(
        add, form_of(project, address=service.address, observation_schema='{"type": "string"}')
    )
    environment = Environment.objects.get()
    assert environment.created_by == admin
    action = {"action": "check_now", "_selected_action": [environment.pk]}
    shown = client.post(reverse("admin:environments_environment_changelist"), action, follow=True)
    assert "responded in" in shown.content.decode()
