"""The rating page on the server: whose items come, what a rater sees of them, and what the end of
the queue shows.
"""

import json
import uuid

import pytest
from django.db.models.functions import Now
from django.urls import reverse

from apps.feedback.claiming import claim, give_back_item
from apps.feedback.item_display import split_words
from apps.feedback.models import Slot
from tests.feedback.asking import ask


@pytest.fixture
def people_run(new_run):
    def make(**people: object):
        return new_run(people={"per_group": 2, "deadline_s": 600, **people})

    return make


@pytest.fixture
def rater(client, bob):
    client.force_login(bob)
    return client


def following(client, **query: object):
    return client.post(reverse("rate-next", query=query))


def test_up_to_three_items_are_returned_and_claimed_at_once(rater, bob, people_run, finish):
    ask(people_run(), finish, groups=4)
    answer = following(rater, count=9)
    assert answer.status_code == 200 and answer.content.count(b"data-item=") == 3
    assert Slot.objects.filter(rater=bob, state="held").count() == 3
    assert following(rater).status_code == 204  # the rater holds the maximum


def test_reloaded_page_gets_its_items_again_in_order_with_new_fences(
    rater, bob, people_run, finish
):
    ask(people_run(), finish, groups=4)
    first, second = claim(bob, None, 2)
    html = following(rater, again=f"{second.slot_id},{first.slot_id}", count=2).content.decode()
    assert html.index(f'data-slot="{second.slot_id}"') < html.index(f'data-slot="{first.slot_id}"')
    assert f'data-fence="{first.fence + 1}"' in html


def test_reloaded_page_does_not_take_items_that_another_window_claimed(
    rater, bob, people_run, finish
):
    ask(people_run(), finish, groups=1)
    before = claim(bob, None, 2)
    for one in before:
        give_back_item(bob, one.slot_id, one.fence)
    claim(bob, None, 2)
    known = {
        "again": ",".join(str(one.slot_id) for one in before),
        "fences": ",".join(str(one.fence) for one in before),
    }
    assert following(rater, **known).status_code == 204


def test_late_return_by_an_old_page_does_not_release_the_reclaimed_item(
    rater, bob, people_run, finish
):
    ask(people_run(), finish, groups=1)
    [held] = claim(bob)
    assert following(rater, again=held.slot_id, fences=held.fence).status_code == 200
    give_back_item(bob, held.slot_id, held.fence)
    assert Slot.objects.get(pk=held.slot_id).rater == bob


def test_item_claimed_by_another_rater_cannot_be_taken(rater, alice, people_run, finish):
    ask(people_run(), finish, groups=1)
    held = claim(alice, None, 2)
    assert following(rater, again=",".join(str(one.slot_id) for one in held)).status_code == 204


def test_signed_out_rater_gets_401_without_a_redirect(client, project):
    answer = following(client)
    assert answer.status_code == 401 and "signed out" in answer.json()["detail"]


def test_item_shows_no_version_rewards_or_raters(rater, people_run, finish):
    ask(people_run(), finish, texts=("one", "two"), value=0.77)
    html = following(rater).content.decode()
    assert "<p>one</p>" in html or "<p>two</p>" in html
    assert not any(word in html for word in ("0.77", "77%", "77 %", "v0", "alice", "version 0"))


def test_html_in_model_output_is_escaped(rater, people_run, finish):
    hostile = (
        "<script>alert(1)</script></textarea><b data-item=7>",
        "<img src=x onerror=alert(1)></textarea><b data-item=7>",
    )
    for form in ("stars", "pairwise", "rewrite", "spans"):
        Slot.objects.all().delete()
        ask(people_run(form=form), finish, hostile)
        html = following(rater).content.decode()
        assert not any(tag in html for tag in ("<script", "<img", "<b ")), form
        assert html.count("</textarea>") == html.count("<textarea"), form


def test_undone_rating_comes_back_with_its_answer(rater, bob, people_run, finish):
    ask(people_run(form="pairwise"), finish)
    [held] = claim(bob)
    said = {
        "client_uuid": str(uuid.uuid4()),
        "fence": held.fence,
        "version": held.version,
        "form": "pairwise",
        "answer": {"preference": -2},
        "critique": "B blames",
    }
    taken = rater.post(
        reverse("rate-slot", args=[held.slot_id]), json.dumps(said), content_type="application/json"
    )
    assert taken.status_code == 201
    undo = {"client_uuid": said["client_uuid"], "new_uuid": str(uuid.uuid4())}
    html = rater.post(
        reverse("rate-undo"), json.dumps(undo), content_type="application/json"
    ).content.decode()
    assert 'value="-2" data-key="2" aria-label="A is better" checked' in html and "B blames" in html


WRONG = [
    "?run=1,a",
    "?run=x",
    "?again=" + "1," * 30,
    "?again=1,2&fences=1",
    "?count=many",
    "?run=" + "9" * 30,
]


@pytest.mark.parametrize("query", WRONG)
def test_invalid_query_returns_404(rater, project, query):
    assert rater.post(reverse("rate-next") + query).status_code == 404


def test_guidelines_are_visible_only_to_people_who_see_the_run(client, bob, carol, people_run):
    run = people_run(guidelines="Be **kind**.\n\n<script>alert(1)</script>")
    client.force_login(carol)
    assert client.get(reverse("rate-guidelines", args=[run.pk])).status_code == 404
    client.force_login(bob)
    html = client.get(reverse("rate-guidelines", args=[run.pk])).content.decode()
    assert "<strong>kind</strong>" in html and "<script" not in html


def test_end_page_without_rating_runs_links_people_who_create_runs_to_a_new_run(
    rater, client, alice, run
):
    waiting = rater.get(reverse("rate-end")).content.decode()
    assert "Nothing to rate yet" in waiting and reverse("run-new") not in waiting
    client.force_login(alice)
    assert reverse("run-new") in client.get(reverse("rate-end")).content.decode()


def test_end_page_shows_items_held_by_another_window(rater, bob, people_run, finish):
    ask(people_run(), finish)
    [held] = claim(bob)
    assert f'data-reclaim-slots="{held.slot_id}"' in rater.get(reverse("rate-end")).content.decode()
    assert (
        "data-reclaim-slots"
        not in rater.get(reverse("rate-end"), {"holding": held.slot_id}).content.decode()
    )


def test_end_page_never_says_that_nothing_waits_beside_a_count(rater, bob, people_run, finish):
    first = people_run()
    other = people_run()
    ask(first, finish)
    ask(other, finish)

    def end(**query: object) -> tuple[str, str]:
        html = rater.get(reverse("rate-end"), query).content.decode()
        heading = html.partition("<h1>")[2].partition("</h1>")[0]
        return heading, html.partition('data-badge="')[2].partition('"')[0]

    assert end() == ("Loading the next item", "4")
    held = claim(bob, run=first.pk, count=2)
    assert end() == ("2 items open in another window", "4")
    assert end(run=other.pk) == ("2 items of other runs open in another window", "4")
    claim(bob, run=other.pk, count=1)
    assert end(run=other.pk) == ("1 item open in another window", "4")
    Slot.objects.filter(run=other).update(state="closed")
    assert end(run=other.pk) == ("Nothing to rate in run-1", "2")
    Slot.objects.filter(pk=held[0].slot_id).update(state="closed")
    Slot.objects.filter(pk=held[1].slot_id).update(lease_until=Now())
    assert end() == ("Waiting for the first replies", "")
    assert following(rater)["X-Waiting"] == "0+0 0+0"
    assert "data-waiting-badge" in rater.get(reverse("rate")).content.decode()


def test_page_of_one_run_gets_only_items_of_that_run(rater, bob, people_run, finish):
    first = people_run()
    other = people_run()
    ask(first, finish)
    ask(other, finish)
    (held,) = claim(bob, run=first.pk)
    query = {"run": other.pk, "again": held.slot_id, "fences": held.fence, "count": 3}
    html = following(rater, **query).content.decode()
    assert html.count("data-item=") == html.count(f'data-run="{other.pk}"') == 2
    assert not Slot.objects.filter(rater=bob, run=first, state="held").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one  two\n", [(0, "one", "  "), (5, "two", "\n")]),
        ("é 👋🏽 x", [(0, "é", " "), (2, "👋🏽", " "), (5, "x", "")]),
        ("日本 go", [(0, "日", ""), (1, "本", " "), (3, "go", "")]),
        ("   ", []),
    ],
)
def test_text_is_split_into_words_with_code_point_positions(text, words):
    assert list(split_words(text)) == words
