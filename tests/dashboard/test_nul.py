"""Every page refuses a NUL character, which PostgreSQL cannot store, and names the field that
contains it.
"""

import pytest
from django.urls import reverse

from tests.crawling import addresses

REST = ("/api/v1/", "/v1/", "/openenv/", "/metrics")


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def test_every_page_rejects_nul_in_its_query_and_names_the_field(alice_client, seeded):
    rollout = seeded.run.rollouts.filter(state="finished").first().pk
    for address in addresses(seeded.run, [rollout]):
        if address.startswith(REST):
            continue
        answer = alice_client.get(f"{address}{'&' if '?' in address else '?'}some-field=a%00")
        assert answer.status_code == 400, address
        assert "some-field" in answer.content.decode(), address


@pytest.mark.parametrize(
    "address",
    [
        "/compare/?runs=lab/%00",
        "/compare/curves/?runs=lab/%00",
        "/runs/new/?project=%00",
        "/runs/new/?like=lab/%00",
        "/runs/new/?against=lab/%00",
        "/arenas/?project=%00",
        "/pipelines/%00/",
        "/?%00=1",
    ],
)
def test_lookup_by_nul_returns_400_or_404(alice_client, address):
    assert alice_client.get(address).status_code in (400, 404)


def test_rest_rejects_nul_with_problem_json(alice_client):
    answer = alice_client.get("/api/v1/runs/?project=%00")
    assert answer.status_code == 422
    assert answer.headers["Content-Type"].startswith("application/problem+json")


def test_a_form_with_a_nul_changes_nothing(alice_client, seeded):
    address = reverse("run-labels", args=["lab", "tone-7"])
    answer = alice_client.post(address, {"tags": "a", "notes": "half of a\0word"})
    seeded.run.refresh_from_db()
    assert (answer.status_code, seeded.run.notes, seeded.run.tags) == (400, "", [])
    assert '<span class="num">notes</span>' in answer.content.decode()


def test_a_name_with_a_nul_is_shown_without_it(alice_client):
    assert "\0" not in alice_client.get("/runs/?a%00b=1").content.decode()
