"""The page on which owners create and retire gold items; raters must not find out which these
are.
"""

import pytest
from django.urls import reverse

from apps.feedback import known_items
from apps.feedback.models import Item
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from tests.feedback.asking import ask

ANSWERS = {
    "stars": {"stars": "4"},
    "thumbs": {"up": "yes"},
    "pairwise": {"preference": "-2"},
    "best_worst": {"best": "A", "worst": "B"},
    "ranking": {"rank:A": "1", "rank:B": "2"},
    "rubric": {"scale:polite": "5"},
}
KEPT = {
    "stars": {"stars": 4},
    "thumbs": {"up": True},
    "pairwise": {"preference": -2},
    "best_worst": {"best": "A", "worst": "B"},
    "ranking": {"ranks": {"A": 1, "B": 2}},
    "rubric": {"scales": {"polite": 5}},
}


@pytest.fixture
def asked(new_run, finish):
    """Create a run with this form and one group of two that waits for raters."""

    def make(form: str = "stars") -> Run:
        rubric = [{"name": "polite"}] if form == "rubric" else []
        run = new_run(people={"per_group": 2, "form": form, "rubric": rubric})
        ask(run, finish)
        return run

    return make


def page(run: Run, name: str = "run-gold", *more: int) -> str:
    return reverse(name, args=[run.project.slug, run.slug, *more])


def rollouts_for(run: Run) -> list[int]:
    pks = list(Rollout.objects.filter(run=run).order_by("pk").values_list("pk", flat=True))
    return pks if run.settings.people.form in ("pairwise", "best_worst", "ranking") else pks[:1]


def named(said: object, letters: dict[str, int], text: bool) -> object:
    """Return the answer with ids instead of the letters A and B."""
    if isinstance(said, dict):
        return {named_key(key, letters): named(value, letters, text) for key, value in said.items()}
    return (str(letters[said]) if text else letters[said]) if said in ("A", "B") else said


def named_key(key: str, letters: dict[str, int]) -> str:
    start, _, end = key.rpartition(":")
    return (f"{start}:" if start else "") + str(letters.get(end, end))


@pytest.mark.parametrize("form", ANSWERS)
def test_gold_answer_is_entered_in_the_raters_form(client, asked, alice, form):
    run = asked(form)
    shown = rollouts_for(run)
    letters = dict(zip("AB", shown, strict=False))
    client.force_login(alice)
    address = f"{page(run, 'run-gold-new')}?{'&'.join(f'rollout={pk}' for pk in shown)}"
    assert client.get(address).status_code == 200
    answer = client.post(
        address,
        {**named(ANSWERS[form], letters, True), "purpose": "gold", "explanation": "It is **so**."},
    )
    assert answer.status_code == 302, answer.context and answer.context["wrong"]
    item = Item.objects.get(purpose="gold")
    assert (
        item.expected == named(KEPT[form], letters, False)
        and item.members == shown
        and item.explanation == "It is **so**."
    )
    html = client.get(page(run)).content.decode()
    assert "<b>so" not in html and "<strong>so" not in html, "text of owners is shown as plain text"


def test_missing_answer_is_refused_and_creates_no_item(client, asked, alice):
    run = asked()
    client.force_login(alice)
    answer = client.post(
        f"{page(run, 'run-gold-new')}?rollout={rollouts_for(run)[0]}", {"purpose": "gold"}
    )
    assert (
        answer.status_code == 422
        and "stars" in answer.context["wrong"]
        and not Item.objects.filter(purpose="gold").exists()
    )


@pytest.mark.parametrize("numbers", ["", "?rollout=999999", "?rollout=x", "?rollout=1e5"])
def test_invalid_replies_show_no_form(client, asked, alice, numbers):
    run = asked()
    client.force_login(alice)
    assert client.get(page(run, "run-gold-new") + numbers).status_code in (302, 404)


def test_owner_retires_an_item(client, asked, alice):
    run = asked()
    item = known_items.create_known_item(
        run, known_items.candidates(run, rollouts_for(run)), "attention", {"stars": 1}, "", alice
    )
    client.force_login(alice)
    assert "attention" in client.get(page(run)).content.decode()
    assert client.post(page(run, "run-gold-retire", item.pk)).status_code == 302
    item.refresh_from_db()
    assert item.state == "closed" and "retired" in client.get(page(run)).content.decode()


def test_ordinary_item_cannot_be_retired_as_gold(client, asked, alice):
    run = asked()
    ordinary = Item.objects.filter(run=run, purpose="reward").first()
    client.force_login(alice)
    assert client.post(page(run, "run-gold-retire", ordinary.pk)).status_code == 404
    ordinary.refresh_from_db()
    assert ordinary.state == "open"


@pytest.mark.parametrize("name", ["run-gold", "run-gold-new"])
def test_rater_cannot_open_the_gold_pages(client, asked, bob, name):
    run = asked()
    client.force_login(bob)
    assert client.get(page(run, name), {"rollout": rollouts_for(run)[0]}).status_code == 403


def test_run_with_a_text_form_has_no_gold_items(client, asked, alice):
    run = asked("critique")
    client.force_login(alice)
    assert "no correct answer" in client.get(page(run)).content.decode()
