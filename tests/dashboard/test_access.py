"""Who may see and do what: members see, owners steer, for strangers nothing is there, for nobody
nothing at all.
"""

import pytest
from django.test import Client
from django.urls import reverse

from apps.runs.models import Run, Worker

OPEN_TO_MEMBERS = ["home", "live", "runs", "tasksets", "weights", "settings", "rate"]
OF_THE_RUN = ["run", "run-curves", "rollouts", "run-weights", "run-pipeline", "run-buffer"]
PARTS = ["now", "newest", "beside"]


def of_the_run(run: Run) -> list[str]:
    """Every address that belongs to the run."""
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


def test_every_page_asks_who_is_not_signed_in_to_log_in(client, seeded):
    for address in everything(seeded.run):
        answer = client.get(address)
        assert answer.status_code == 302 and answer["Location"].startswith("/accounts/login/"), (
            address
        )


def test_a_member_sees_every_page(client, seeded):
    client.force_login(seeded.bob)
    for address in everything(seeded.run):
        assert client.get(address, follow=True).status_code == 200, address


def test_what_belongs_to_others_is_not_there(client, seeded):
    client.force_login(seeded.carol)
    for address in of_the_run(seeded.run):
        assert client.get(address).status_code == 404, address


def test_cards_of_others_are_left_out(client, seeded):
    client.force_login(seeded.carol)
    for name in ("live-cards", "live-chips"):
        answer = client.get(reverse(name), {"rollout": seeded.rollout.pk})
        assert answer.status_code == 200 and answer.content.strip() == b""


def test_a_stranger_reads_nothing_of_the_project_in_a_list(client, seeded):
    client.force_login(seeded.carol)
    for name in OPEN_TO_MEMBERS:
        assert b"tone-7" not in client.get(reverse(name), follow=True).content, name


def test_what_workers_do_for_other_runs_is_not_told(client, seeded):
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
def test_a_rater_steers_nothing(client, seeded, verb):
    client.force_login(seeded.bob)
    answer = client.post(
        reverse("run-act", args=["lab", seeded.run.slug, verb]), {"name": seeded.run.slug}
    )
    assert answer.status_code == 403 and Run.objects.get(pk=seeded.run.pk).is_live


def test_a_stranger_cannot_tell_a_run_from_none(client, seeded):
    client.force_login(seeded.carol)
    there = client.post(reverse("run-act", args=["lab", seeded.run.slug, "pause"]))
    nowhere = client.post(reverse("run-act", args=["lab", "nothing", "pause"]))
    assert there.status_code == nowhere.status_code == 404 and len(there.content) == len(
        nowhere.content
    )


def test_what_changes_something_is_no_get(client, seeded):
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


def test_posts_without_the_token_of_the_form_are_refused(seeded):
    client = Client(enforce_csrf_checks=True)
    client.force_login(seeded.alice)
    assert (
        client.post(reverse("run-act", args=["lab", seeded.run.slug, "pause"])).status_code == 403
    )


def test_pages_carry_a_policy_without_inline_code(client, seeded):
    client.force_login(seeded.bob)
    policy = client.get(reverse("run", args=["lab", seeded.run.slug]))["Content-Security-Policy"]
    assert (
        "unsafe" not in policy
        and "default-src 'none'" in policy
        and "frame-ancestors 'none'" in policy
    )
