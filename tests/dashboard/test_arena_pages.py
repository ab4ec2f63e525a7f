"""Blind arenas in the pages: created from selected evaluations, judged without the authors' names,
with standings for permitted users.
"""

import json
import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.dashboard import arenas
from apps.evaluation.arena.making import create_arena
from apps.evaluation.models import Arena, Pairing, Vote
from apps.runs.models import Run
from tests.evaluation.arena.contests import contest, evaluated, judge_all

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(run, finish, alice, bob, carol):
    return contest(run, finish, alice)


def judging(arena: Arena, name: str = "arena-judge") -> str:
    return reverse(name, args=[arena.pk])


def standings(client, arena: Arena):
    return client.get(reverse("arena", args=["lab", arena.pk]))


def post(client, address: str, **document: object):
    return client.post(address, json.dumps(document), content_type="application/json")


def given(client, arena: Arena, count: int = 1, held: str = "") -> list[str]:
    text = client.get(judging(arena, "arena-next"), {"count": count, "held": held}).content.decode()
    return re.findall(r'data-pair="([^"]+)"', text)


def test_selected_evaluations_become_an_arena(client, run, finish, alice, bob):
    runs = evaluated(run, finish, [["a"], ["b"], ["c"]])
    client.force_login(alice)
    page = client.get(reverse("run-evaluations", args=["lab", run.slug])).content.decode()
    assert all(f'name="contestant" value="{one.pk}"' in page for one in runs)
    address = reverse("run-arena", args=["lab", run.slug])
    answer = client.post(
        address, {"contestant": [runs[2].pk, runs[0].pk], "title": "Old or new", "again": "25"}
    )
    arena = Arena.objects.get()
    assert answer["Location"] == reverse("arena", args=["lab", arena.pk]) and (
        arena.title,
        arena.again,
    ) == ("Old or new", 0.25)
    assert list(arena.contestants.order_by("place").values_list("run", flat=True)) == [
        runs[2].pk,
        runs[0].pk,
    ]
    client.force_login(bob)
    assert client.post(address, {"contestant": [one.pk for one in runs]}).status_code == 403
    assert (
        'name="contestant"'
        not in client.get(reverse("run-evaluations", args=["lab", run.slug])).content.decode()
    )


def test_newest_evaluations_and_the_base_are_offered_and_the_rest_is_counted(
    client, run, finish, alice, monkeypatch
):
    monkeypatch.setattr(arenas, "OFFERED", 2)
    runs = evaluated(run, finish, [["a"], ["b"], ["c"], ["d"]])
    client.force_login(alice)
    page = client.get(reverse("run-evaluations", args=["lab", run.slug])).content.decode()
    assert [f'name="contestant" value="{one.pk}"' in page for one in runs] == [
        True,
        False,
        True,
        True,
    ]
    assert "1 older evaluation not listed" in page


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"contestant": []}, "choose 2 to 12"),
        ({"again": "many"}, "from 0 to 100"),
        ({"again": "nan"}, "between 0 and 100"),
        ({"title": "x" * 101}, "at most 100"),
        ({"contestant": ["9" * 30, "-1", "x"]}, "choose 2 to 12"),
    ],
)
def test_invalid_arena_is_refused_at_its_field(client, run, finish, alice, wrong, words):
    runs = evaluated(run, finish, [["a"], ["b"]])
    client.force_login(alice)
    asked = {"contestant": [one.pk for one in runs], **wrong}
    answer = client.post(reverse("run-arena", args=["lab", run.slug]), asked)
    assert (
        answer.status_code == 422
        and words in answer.content.decode()
        and not Arena.objects.exists()
    )


def test_judging_page_does_not_show_who_wrote_a_reply(client, arena, bob):
    client.force_login(bob)
    names = given(client, arena, 3)
    answer = post(
        client,
        judging(arena, "arena-vote"),
        client_uuid=str(uuid.uuid4()),
        pair=names[0],
        choice="left",
        milliseconds=900,
    )
    assert answer.status_code == 201
    told = [
        client.get(address).content.decode()
        for address in (
            judging(arena),
            judging(arena, "arena-next") + "?count=3",
            reverse("arenas"),
            reverse("rate"),
            reverse("rate-end"),
        )
    ]
    told += [standings(client, arena).content.decode(), answer.content.decode(), *names]
    runs = Run.objects.filter(contests__arena=arena)
    for text in told:
        text = re.sub(r"answer \d of v\d|csrf\S+", "", text)  # the text of the replies
        assert not any(run.slug in text or run.title in text for run in runs)
        assert not re.search(r"\bv[012]\b|/rollouts/|/runs/lab", text)
    shown = told[1]
    assert set(re.findall(r"[\w-]+(?==\")", shown)) == {
        "class",
        "data-pair",
        "type",
        "aria-pressed",
        "aria-label",
        "tabindex",
        "role",
        "data-side",
        "dir",
    }
    sides = re.findall(r"(?s)<li.*?</li>", shown)
    alike = {
        re.sub(r'answer \d of v\d|data-side="."|<h2 class="letter">.', "", side) for side in sides
    }
    assert len(sides) == 6 and len(alike) == 1
    assert "You rate this arena blind" in told[5] and "won" not in told[5].split("<main>")[1]


def test_model_text_is_shown_and_never_run(client, run, finish, alice, bob):
    runs = evaluated(run, finish, [["<script>steal()</script>"], ["<img src=x onerror=steal()>"]])
    create_arena(run.project, alice, "<b>bold</b>", [one.pk for one in runs])
    client.force_login(bob)
    arena = Arena.objects.get()
    shown = client.get(judging(arena, "arena-next")).content.decode()
    assert (
        "&lt;script&gt;steal()" in shown
        and "&lt;img src=x" in shown
        and "<script" not in shown
        and "<img" not in shown
    )
    assert "&lt;b&gt;bold" in client.get(judging(arena)).content.decode()


def test_sides_of_a_pair_stay_the_same_after_a_reload(client, arena, bob):
    client.force_login(bob)
    address = judging(arena, "arena-next") + "?count=3"
    assert client.get(address).content == client.get(address).content


def test_repeated_vote_counts_once_and_undo_returns_its_pair(client, arena, bob):
    client.force_login(bob)
    [name] = given(client, arena)
    key = str(uuid.uuid4())
    back = str(uuid.uuid4())
    vote = {"client_uuid": key, "pair": name, "choice": "left", "milliseconds": 10**12}
    assert [post(client, judging(arena, "arena-vote"), **vote).status_code for _ in range(2)] == [
        201,
        200,
    ]
    assert Vote.objects.get().milliseconds == 86_400_000
    for _ in range(2):
        answer = post(client, judging(arena, "arena-undo"), client_uuid=key, new_uuid=back)
        assert f'data-pair="{name}"' in answer.content.decode()
    assert Vote.objects.count() == 2 and not Pairing.objects.filter(votes__gt=0).exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"pair": "1.0.x"},
        {"pair": None},
        {"choice": "first"},
        {"client_uuid": "x"},
        {"milliseconds": -1},
        {"rollout": 3},
    ],
)
def test_invalid_vote_is_refused_by_field(client, arena, bob, wrong):
    client.force_login(bob)
    vote = {
        "client_uuid": str(uuid.uuid4()),
        "pair": given(client, arena)[0],
        "choice": "tie",
        **wrong,
    }
    answer = post(client, judging(arena, "arena-vote"), **vote)
    assert (
        answer.status_code == 422
        and list(answer.json()["fields"]) == list(wrong)
        and not Vote.objects.exists()
    )


def test_invalid_count_or_filter_is_404(client, arena, bob):
    client.force_login(bob)
    for query in ("?count=0", "?count=9", "?count=x"):
        assert client.get(judging(arena, "arena-next") + query).status_code == 404
    assert (
        client.get(judging(arena, "arena-next") + "?held=,,x,1.2.3," + "9" * 70).status_code == 200
    )
    assert client.get(reverse("arenas") + "?before=x").status_code == 404
    assert client.get(reverse("arenas") + "?project=other").status_code == 404


def test_viewer_can_look_but_not_judge(client, arena, project):
    vera = User.objects.create(username="vera")
    Membership.objects.create(project=project, user=vera, role=Membership.Role.VIEWER)
    client.force_login(vera)
    assert (
        client.get(judging(arena)).status_code == 404
        and client.get(judging(arena, "arena-next")).status_code == 404
    )
    assert (
        post(
            client,
            judging(arena, "arena-vote"),
            client_uuid=str(uuid.uuid4()),
            pair="1.0.x",
            choice="tie",
        ).status_code
        == 404
    )
    assert "Strength, points" in standings(client, arena).content.decode()


def test_standings_show_the_contestants_and_their_results(client, arena, alice, bob):
    client.force_login(alice)
    assert "No votes yet" in standings(client, arena).content.decode()
    places = {one.pk: one.place for one in arena.contestants.all()}
    judge_all(
        bob,
        arena,
        lambda pair: "second" if pair.index or places[pair.pairing.first_id] else "first",
    )
    text = standings(client, arena).content.decode()
    assert (
        all(f"v{number} of run-0" in text for number in range(3))
        and "0 – 0 – 8" in text
        and "6 – 0 – 2" in text
    )
    assert "not enough votes for strengths" not in text and "won every time" not in text


def test_missing_strengths_are_explained_for_each_contestant(client, run, finish, alice, bob):
    arena = contest(run, finish, alice, contestants=2)
    judge_all(bob, arena, lambda pair: "second")
    client.force_login(alice)
    text = standings(client, arena).content.decode()
    assert (
        "won every time" in text
        and "lost every time" in text
        and "not enough votes for strengths" in text
    )


def test_steering_user_can_download_the_votes(client, arena, alice, bob):
    judge_all(bob, arena, lambda pair: "tie", most=2)
    address = reverse("arena-votes", args=["lab", arena.pk])
    client.force_login(bob)
    assert client.get(address).status_code == 403
    client.force_login(alice)
    assert len(b"".join(client.get(address)).decode().splitlines()) == 3


def test_closed_arena_is_shown_as_closed_and_can_be_reopened(client, arena, alice, bob):
    client.force_login(alice)
    act = {
        verb: reverse("arena-act", args=["lab", arena.pk, verb])
        for verb in ("close", "open", "burn")
    }
    client.post(act["close"])
    assert "This arena is closed" in client.get(judging(arena, "arena-next")).content.decode()
    assert (
        "closed" in client.get(reverse("arenas")).content.decode()
        and client.post(act["burn"]).status_code == 404
    )
    client.post(act["open"])
    assert given(client, arena)


def test_raters_find_open_arenas_on_the_rating_page(client, arena, bob, carol):
    client.force_login(bob)
    assert reverse("arenas") in client.get(reverse("rate")).content.decode()
    assert judging(arena) in client.get(reverse("arenas")).content.decode()
    client.force_login(carol)
    assert reverse("arenas") not in client.get(reverse("rate")).content.decode()
    assert "No arenas yet" in client.get(reverse("arenas")).content.decode()


def test_number_of_queries_does_not_grow_with_arenas_and_votes(client, arena, alice, bob):
    client.force_login(alice)
    looked_at = {
        "arenas": reverse("arenas"),
        "standings": reverse("arena", args=["lab", arena.pk]),
        "judge": judging(arena),
        "next": judging(arena, "arena-next") + "?count=2",
    }

    def queries() -> dict[str, int]:
        counts = {}
        for name, address in looked_at.items():
            with CaptureQueriesContext(connection) as captured:
                assert client.get(address).status_code == 200
            counts[name] = len(captured)
        return counts

    few = queries()
    judge_all(bob, arena, lambda pair: "tie", most=20)
    for n in range(4):
        create_arena(
            arena.project,
            alice,
            f"Another {n}",
            list(arena.contestants.values_list("run", flat=True)),
        )
    many = queries()
    assert all(many[name] <= few[name] for name in few) and max(few.values()) <= 16, (few, many)
