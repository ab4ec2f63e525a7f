"""A run's rescorings over REST: requested, listed, stopped, and used for training."""

import pytest

from apps.accounts.models import AuditEntry
from apps.rewards.models import Rescoring, Reward
from apps.rollouts.models import Group
from apps.runs.models import Run

pytestmark = pytest.mark.django_db
TWICE = {"rewards": [{"scorer": "sort", "weight": 2.0}]}


@pytest.fixture
def there(client, alice, run, finish):
    [group] = finish(run)
    Group.objects.filter(pk=group.pk).update(state=Group.State.ADMITTED)
    Reward.record(group.rollouts.first(), Reward.Source.RULE, "sort", 1.0)
    client.force_login(alice)
    return f"/api/v1/runs/{run.pk}/rescorings/"


def sent(client, path: str, body: dict):
    return client.post(path, body, content_type="application/json")


def test_rescoring_is_requested_listed_and_stopped(client, there):
    made = sent(client, there, {**TWICE, "chosen": {"limit": 50}})
    assert (made.status_code, made.json()["state"], made.json()["rollouts"]) == (201, "waiting", 2)
    path = f"{there}{made.json()['id']}/"
    assert client.get(path).json() == client.get(there).json()["items"][0]
    assert sent(client, f"{path}stop/", {}).json()["reason"] == "stopped by alice"
    assert sent(client, f"{path}stop/", {}).status_code == 409
    acts = AuditEntry.objects.filter(by__username="alice", details__set__isnull=False).order_by(
        "pk"
    )
    assert list(acts.values_list("action", flat=True)) == [
        "rollouts scored again",
        "scoring again stopped",
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "rewards"),
        ({"rewards": []}, "rewards"),
        ({"rewards": [{"scorer": "sart"}]}, "rewards.0.scorer"),
        ({"rewards": [{"scorer": "sort", "options": {"x": 1}}]}, "rewards.0.options.x"),
        ({**TWICE, "chosen": {"from_step": 3, "to_step": 2}}, "chosen"),
        ({**TWICE, "chosen": {"low": 1}}, "chosen"),
        ({**TWICE, "colour": "red"}, "colour"),
    ],
)
def test_invalid_rescoring_is_refused_by_field(client, there, body, field):
    answer = sent(client, there, body)
    assert answer.status_code == 422 and field in answer.json()["errors"], answer.json()
    assert not Rescoring.objects.exists()


def test_rescoring_without_matching_rollouts_is_a_conflict(client, there):
    answer = sent(client, there, {**TWICE, "chosen": {"from_step": 9}})
    assert answer.status_code == 409 and "no scored rollouts" in answer.json()["detail"]


def test_raters_and_strangers_cannot_access_rescorings(client, there, bob, carol):
    made = sent(client, there, TWICE).json()["id"]
    for person, status in ((bob, 403), (carol, 404)):
        client.force_login(person)
        assert {client.get(there).status_code, client.get(f"{there}{made}/").status_code} == {
            status
        }
        assert sent(client, there, TWICE).status_code == status


def test_replay_can_use_only_a_finished_rescoring_of_its_run(client, there, run):
    made = sent(client, there, TWICE).json()["id"]
    Run.objects.filter(pk=run.pk).update(step=1)
    path = f"/api/v1/runs/{run.pk}/replay/"
    refused = sent(client, path, {"rescoring": made})
    assert (
        refused.status_code == 409
        and "only finished rescorings can be used" in refused.json()["detail"]
    )
    assert sent(client, path, {"rescoring": made + 1}).status_code == 404
