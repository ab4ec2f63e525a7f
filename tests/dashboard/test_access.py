"""Access rights: members see runs, owners steer them, strangers get 404, and anonymous users are
sent to the login.
"""

import pytest
from django.test import Client
from django.urls import reverse

from apps.runs.models import Run, Worker

OPEN_TO_MEMBERS = ["home", "live", "runs", "tasksets", "weights", "settings", "rate"]
OF_THE_RUN = ["run", "run-curves", "rollouts", "run-weights", "run-pipeline", "run-buffer"]
PARTS = ["now", "newest", "beside"]


def of_the_run(run: Run) -> list[str]:
    """Return every address that belongs to the run."""
    here = ["lab", run.slug]
    pages = [reverse(name, args=here) for name in OF_THE_RUN] + [
        reverse("run-part", args=[*here, part]) for part in PARTS
    ]
    return [
        *pages,
        reverse("rollout", args=[run.rollouts.first().pk]),
        reverse("taskset", args=["lab", "tone"]),
    ]


def everything(run: Run) -> list[str]:
    return [reverse(name) for name in OPEN_TO_MEMBERS] + of_the_run(run)


def test_every_page_redirects_anonymous_users_to_the_login(client, seeded):
    for address in everything(seeded.run):
        answer = client.get(address)
        assert answer.status_code == 302 and answer["Location"].startswith("/accounts/login/"), (
            address
        )


def test_member_can_open_every_page(client, seeded):
    client.force_login(seeded.bob)
    for address in everything(seeded.run):
        assert client.get(address, follow=True).status_code == 200, address


def test_pages_of_a_run_are_404_for_a_stranger(client, seeded):
    client.force_login(seeded.carol)
    for address in of_the_run(seeded.run):
        assert client.get(address).status_code == 404, address


def test_cards_of_other_projects_are_empty(client, seeded):
    client.force_login(seeded.carol)
    for name in ("live-cards", "live-chips"):
        answer = client.get(reverse(name), {"rollout": seeded.rollout.pk})
        assert answer.status_code == 200 and answer.content.strip() == b""


def test_lists_show_a_stranger_nothing_of_the_project(client, seeded):
    client.force_login(seeded.carol)
    for name in OPEN_TO_MEMBERS:
        assert b"tone-7" not in client.get(reverse(name), follow=True).content, name


def test_work_for_other_runs_is_not_shown(client, seeded):
    explorer = Worker.objects.create(
        key="explorer@elsewhere:1:1", role="explorer", host="elsewhere", pid=1
    )
    words = {0: "24 rollouts, 400 tok/s", seeded.run.pk: "8 rollouts, 120 tok/s"}
    explorer.beat("secret-plan: 24 rollouts, 400 tok/s; tone-7: 8 rollouts, 120 tok/s", words)
    Worker.objects.create(
        key="trainer@elsewhere:2:2",
        role="trainer",
        host="elsewhere",
        pid=2,
        doing="secret-plan: step 3",
    )
    client.force_login(seeded.bob)
    html = client.get(reverse("run", args=["lab", "tone-7"])).content.decode()
    assert "secret-plan" not in html
    assert "8 rollouts, 120 tok/s" in html and "working for another run" in html


@pytest.mark.parametrize("verb", ["pause", "stop"])
def test_rater_cannot_steer_a_run(client, seeded, verb):
    client.force_login(seeded.bob)
    answer = client.post(
        reverse("run-act", args=["lab", seeded.run.slug, verb]), {"name": seeded.run.slug}
    )
    assert answer.status_code == 403 and Run.objects.get(pk=seeded.run.pk).is_live


def test_stranger_gets_the_same_404_for_an_existing_and_a_missing_run(client, seeded):
    client.force_login(seeded.carol)
    there = client.post(reverse("run-act", args=["lab", seeded.run.slug, "pause"]))
    nowhere = client.post(reverse("run-act", args=["lab", "nothing", "pause"]))
    assert there.status_code == nowhere.status_code == 404 and len(there.content) == len(
        nowhere.content
    )


def test_actions_refuse_get_requests(client, seeded):
    client.force_login(seeded.alice)
    here = ["lab", seeded.run.slug]
    acts = {
        "run-act": [*here, "pause"],
        "run-simulated-rater": here,
        "issue-token": [],
        "revoke-token": [1],
        "rate-rollout": [1],
    }
    for name, args in acts.items():
        assert client.get(reverse(name, args=args)).status_code == 405, name


def test_post_without_a_csrf_token_is_refused(seeded):
    client = Client(enforce_csrf_checks=True)
    client.force_login(seeded.alice)
    assert (
        client.post(reverse("run-act", args=["lab", seeded.run.slug, "pause"])).status_code == 403
    )


def test_pages_have_a_content_security_policy_without_inline_code(client, seeded):
    client.force_login(seeded.bob)
    policy = client.get(reverse("run", args=["lab", seeded.run.slug]))["Content-Security-Policy"]
    assert (
        "unsafe" not in policy
        and "default-src 'none'" in policy
        and "frame-ancestors 'none'" in policy
    )
