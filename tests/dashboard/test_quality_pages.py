"""The pages about the quality of people's ratings: who may see them, what they show, and the
adjudication of a dispute.
"""

import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.feedback import rater_quality
from apps.feedback.forms import FORMS
from apps.feedback.models import Adjudication, Item, Rating
from tests.feedback.asking import ask
from tests.feedback.quality.deciding import (
    REPLIES,
    anyhow,
    better,
    decide,
    everybody,
    first_shown,
    lenient,
    rater,
    strict,
)

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
NAN = re.compile(r"\bnan\b", re.IGNORECASE)  # a word: a form's token may hold its letters


@pytest.fixture(autouse=True)
def forget():
    rater_quality.clear_quality_cache()


@pytest.fixture
def asked(new_run, finish):
    """Return a function that creates a run with waiting groups; keywords replace fields of its
    `people`.
    """

    def make(texts=REPLIES, groups=2, **people):
        settings = {
            "per_group": len(texts),
            "deadline_s": 6000,
            "overlap": 2,
            "open_claims": 100,
            **people,
        }
        run = new_run(group_size=len(texts), max_staleness=20, people=settings)
        ask(run, finish, texts, groups=groups)
        return run

    return make


@pytest.fixture
def judged(asked, project):
    """Create such a run, rated by three people: ann strictly, ben leniently, cem at random and
    instantly.
    """
    run = asked(overlap=3, groups=3)
    everybody(project, run, {"ann": (strict, 6.2), "ben": (lenient, 9.0), "cem": (anyhow(3), 0.7)})
    return run


def address(run, name, *more):
    return reverse(name, args=[run.project.slug, run.slug, *more])


def page(client, user, run, name, *more):
    client.force_login(user)
    answer = client.get(address(run, name, *more))
    return answer.status_code, answer.content.decode()


def disputed(run):
    return Item.objects.filter(run=run).order_by("pk").first()


def test_quality_page_shows_agreement_and_every_rater(client, judged, alice):
    status, text = page(client, alice, judged, "run-quality")
    assert status == 200
    for words in (
        "ann",
        "ben",
        "cem",
        "too fast",
        "Fleiss κ",
        "ann and ben",
        "36 ratings by 3 people",
    ):
        assert words in text


@pytest.mark.parametrize("name", ["run-quality", "run-adjudicate"])
def test_raters_viewers_and_strangers_cannot_open_the_quality_pages(
    client, judged, bob, carol, project, name
):
    viewer = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=viewer, role=Membership.Role.VIEWER)
    assert [page(client, user, judged, name)[0] for user in (bob, viewer, carol)] == [403, 403, 404]


def test_researcher_can_open_the_quality_page(client, judged, project):
    researcher = User.objects.create_user("rosa")
    Membership.objects.create(project=project, user=researcher, role=Membership.Role.RESEARCHER)
    assert page(client, researcher, judged, "run-quality")[0] == 200


@pytest.mark.parametrize(
    ("name", "words"),
    [("run-quality", "No ratings yet"), ("run-adjudicate", "No disagreements")],
)
def test_run_without_ratings_says_so(client, new_run, alice, name, words):
    status, text = page(client, alice, new_run(), name)
    assert status == 200 and words in text


def test_page_says_that_one_rating_per_item_gives_no_agreement(client, asked, project, alice):
    run = asked(overlap=1)
    everybody(project, run, {"ann": (strict, 5.0)})
    _, text = page(client, alice, run, "run-quality")
    assert "Only one person rates each item" in text and not NAN.search(text.split("</head>")[1])


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"flag"}))
def test_quality_and_adjudication_pages_work_for_every_rating_form(
    client, asked, project, alice, form
):
    """Check both pages and the page of a dispute with two people who disagree, for each form."""
    rubric = [{"name": "polite"}, {"name": "right"}]
    run = asked(
        texts=REPLIES[:2], groups=2, form=form, **({"rubric": rubric} if form == "rubric" else {})
    )
    everybody(
        project,
        run,
        {"ann": (answer_of(form, False), 5.0), "ben": (answer_of(form, True), 5.0)},
        critique="As I see it.",
    )
    assert Rating.objects.filter(run=run).count() >= 4
    for name in ("run-quality", "run-adjudicate"):
        status, text = page(client, alice, run, name)
        assert status == 200 and not NAN.search(text)
    assert page(client, alice, run, "run-dispute", disputed(run).pk)[0] == 200


def answer_of(form, turned):
    """Return a function that answers this form; `turned` chooses the opposite answer."""
    return lambda held: {
        "thumbs": {"up": turned},
        "stars": {"stars": 1 if turned else 5},
        "pairwise": {
            "preference": (
                3 if (held.members[0].id < held.members[1 % len(held.members)].id) == turned else -3
            )
        },
        "ranking": {
            "ranks": {
                str(m.id): n
                for n, m in enumerate(sorted(held.members, key=lambda m: m.id * (-1) ** turned), 1)
            }
        },
        "best_worst": dict(
            zip(
                ("best", "worst"),
                sorted((m.id for m in held.members), reverse=turned),
                strict=False,
            )
        ),
        "rubric": {"scales": {"polite": 1 if turned else 5, "right": 3}},
        "turns": {"marks": {"0": -1 if turned else 1}},
        "spans": {"spans": [{"start": 0, "end": 2 + turned}]},
        "critique": {},
        "rewrite": {"text": f"Better {turned}"},
    }[form]


def test_adjudication_page_lists_disputes_with_all_their_votes(client, judged, alice):
    _, text = page(client, alice, judged, "run-adjudicate")
    for words in ("ann", "ben", "cem", "5 of 5 stars", "Accept", "difference"):
        assert words in text


def test_accepting_a_vote_adjudicates_the_item(client, judged, alice):
    item = disputed(judged)
    vote = item.ratings.get(rater__username="ann")
    client.force_login(alice)
    answer = client.post(
        address(judged, "run-dispute", item.pk), {"vote": vote.pk, "client_uuid": str(uuid.uuid4())}
    )
    assert answer.status_code == 302
    word = Adjudication.objects.get(item=item).rating
    assert (word.rater, word.answer) == (alice, vote.answer)
    _, text = page(client, alice, judged, "run-adjudicate")
    assert "Adjudicated" in text and f"adjudicate/{item.pk}/" in text


def test_accepted_vote_on_swapped_replies_keeps_its_meaning(client, asked, project, alice):
    run = asked(form="pairwise", groups=4)
    everybody(project, run, {"ann": (better, 5.0), "ben": (first_shown, 5.0)})
    vote = swapped(
        Rating.objects.filter(run=run, rater__username="ann").exclude(answer__preference=0).first()
    )
    client.force_login(alice)
    client.post(
        address(run, "run-dispute", vote.item_id),
        {"vote": vote.pk, "client_uuid": str(uuid.uuid4())},
    )
    word = Adjudication.objects.get(item=vote.item_id).rating
    assert word.answer == {"preference": -vote.answer["preference"]} and word.shown == sorted(
        vote.shown
    )


def swapped(vote):
    """Return the same vote as if the higher id had been shown first; the order is drawn for each
    rater.
    """
    if vote.shown == sorted(vote.shown):
        vote.shown, vote.answer = vote.shown[::-1], {"preference": -vote.answer["preference"]}
        Rating.objects.filter(pk=vote.pk).update(shown=vote.shown, answer=vote.answer)
    return vote


def test_owner_can_decide_differently_and_make_the_item_gold(client, judged, alice):
    item = disputed(judged)
    client.force_login(alice)
    said = {
        "stars": "3",
        "client_uuid": str(uuid.uuid4()),
        "critique": "Fair.",
        "gold": "on",
        "explanation": "Neither.",
    }
    client.post(address(judged, "run-dispute", item.pk), said)
    assert Adjudication.objects.get(item=item).rating.answer == {"stars": 3}
    assert Item.objects.get(run=judged, purpose="gold").expected == {"stars": 3}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "missing"),
        ({"stars": "9"}, "from 1 to 5"),
        ({"vote": "999999"}, "changed or undone"),
        ({"stars": "3", "client_uuid": "x"}, "UUID"),
    ],
)
def test_invalid_adjudication_is_rejected_with_the_reason(client, judged, alice, said, words):
    client.force_login(alice)
    answer = client.post(
        address(judged, "run-dispute", disputed(judged).pk),
        {"client_uuid": str(uuid.uuid4()), **said},
    )
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not Adjudication.objects.exists()


def test_adjudication_with_a_used_uuid_is_rejected_with_the_reason(client, judged, alice):
    client.force_login(alice)
    used, [item, other] = str(uuid.uuid4()), Item.objects.filter(run=judged).order_by("pk")[:2]
    client.post(address(judged, "run-dispute", other.pk), {"stars": "3", "client_uuid": used})
    answer = client.post(
        address(judged, "run-dispute", item.pk), {"stars": "2", "client_uuid": used}
    )
    assert (
        answer.status_code == 422
        and "was already used for another rating" in answer.content.decode()
    )
    assert Adjudication.objects.get().item == other


def test_rater_cannot_adjudicate(client, judged, bob):
    client.force_login(bob)
    said = {"stars": "3", "client_uuid": str(uuid.uuid4())}
    assert client.post(address(judged, "run-dispute", disputed(judged).pk), said).status_code == 403
    assert not Adjudication.objects.exists()


def test_item_of_another_run_returns_404(client, judged, asked, alice):
    other = asked(overlap=1)
    assert page(client, alice, other, "run-dispute", disputed(judged).pk)[0] == 404


@pytest.mark.parametrize("name", ["run-adjudicate", "run-dispute"])
def test_html_in_replies_and_critiques_is_escaped(client, asked, project, alice, name):
    run = asked(texts=(HOSTILE, HOSTILE + "2"))
    decide(rater(project, "ann"), run, lambda _: {"stars": 5}, critique=HOSTILE)
    decide(rater(project, "ben"), run, lambda _: {"stars": 1}, critique="\u202e" + HOSTILE)
    more = [disputed(run).pk] if name == "run-dispute" else []
    _, text = page(client, alice, run, name, *more)
    assert "<script>alert" not in text and "<img src=x" not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize("name", ["run-quality", "run-adjudicate"])
def test_page_queries_do_not_grow_with_the_number_of_groups(client, asked, project, alice, name):
    def queries(groups):
        run = asked(groups=groups)
        everybody(project, run, {"ann": (strict, 5.0), "ben": (anyhow(1), 5.0)})
        client.force_login(alice)
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address(run, name)).status_code == 200
        return len(captured)

    queries(1)  # fill the caches of the process
    assert queries(6) == queries(2)
