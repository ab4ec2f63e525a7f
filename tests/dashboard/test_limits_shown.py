"""A rollout's page shows the limits of its reply, who set them, and whether the time limit ended
it.
"""

import pytest
from django.urls import reverse

from apps.rollouts.models import Rollout

pytestmark = pytest.mark.django_db


def facts(client, rollout: Rollout) -> str:
    page = client.get(reverse("rollout", args=[rollout.pk]))
    assert page.status_code == 200
    return " ".join(page.content.decode().split())


@pytest.fixture
def answered(new_run, finish, taskset):
    def answer(limits: dict, **sampling: object) -> Rollout:
        taskset.tasks.update(meta={"limits": limits})
        finish(new_run(sampling=sampling))
        return Rollout.objects.order_by("pk").last()

    return answer


def test_limits_set_by_the_task_are_shown_as_such(client, alice, answered):
    client.force_login(alice)
    said = facts(client, answered({"max_tokens": 8, "time_s": 2.5}, max_tokens=64, time_s=9))
    assert (
        '<span class="num">8</span> tokens (set by task) · <span class="num">2.50</span> s (set by'
        " task)" in said
    )


def test_limits_of_the_run_apply_if_the_task_allows_more(client, alice, answered):
    client.force_login(alice)
    said = facts(client, answered({"max_tokens": 80, "time_s": 99}, max_tokens=64, time_s=9))
    assert '<span class="num">64</span> tokens · <span class="num">9</span> s</dd>' in said


def test_missing_time_limit_is_not_shown(client, alice, answered):
    client.force_login(alice)
    assert '<span class="num">64</span> tokens</dd>' in facts(client, answered({}, max_tokens=64))


def test_reply_ended_by_the_time_limit_is_reported(client, alice, answered):
    client.force_login(alice)
    rollout = answered({})
    Rollout.objects.filter(pk=rollout.pk).update(stop_reason="time")
    assert "ended by the time limit" in facts(client, rollout)


def test_invalid_limits_of_a_task_are_not_shown(client, alice, answered, taskset):
    client.force_login(alice)
    rollout = answered({})
    taskset.tasks.update(meta={"limits": "none"})
    assert "<dt>Limits</dt>" not in facts(client, rollout)
