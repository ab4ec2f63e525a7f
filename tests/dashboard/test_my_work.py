"""A rater's own ratings: the list, changes, and the ratings of others."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership
from apps.feedback.claiming import claim
from apps.feedback.models import Prediction, RaterModel, Rating, Slot
from apps.feedback.my_work import days, with_others
from apps.feedback.ratings.items import submit
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def rated(new_run, finish, bob):
    """Return `rated(stars…)`, which lets bob rate the first items of a run, and returns the run."""

    def make(*stars: int, person=None, run: Run | None = None, **people: object) -> Run:
        if run is None:
            asked = {"per_group": 2, "deadline_s": 600, "open_claims": 9, **people}
            run = new_run(people=asked, max_staleness=20)
            for _ in range(2):
                ask(run, finish, groups=3)
        for given in stars:
            [held] = claim(person or bob, run.pk)
            said = answer_to(held, {"stars": given}, seconds=30.0)
            submit(person or bob, held.slot_id, said)
        return run

    return make


def text(client, **query: object) -> str:
    answer = client.get(reverse("my-work"), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


@pytest.fixture
def rater(client, bob):
    client.force_login(bob)
    return client


def test_own_ratings_are_listed_with_their_duration(rated, rater, bob):
    rated(2, 5)
    [today] = days(bob)
    assert (today.ratings, today.seconds) == (2, 60.0)
    page = text(rater)
    assert "2 of 5 stars" in page and "5 of 5 stars" in page and "2 ratings today" in page


def test_ratings_of_other_users_are_not_shown(rated, client, alice):
    rated(2)
    client.force_login(alice)
    assert "No ratings yet" in text(client)


def test_last_ten_ratings_can_be_changed_and_open_with_their_answer(rated, rater, bob):
    rated(*[3] * 11)
    first, last = Rating.objects.order_by("pk")[0], Rating.objects.order_by("-pk")[0]
    assert text(rater).count(">Change<") == 10
    answer = rater.post(reverse("my-work-change", args=[last.pk]))
    slot = Slot.objects.get(rater=bob, state="held")
    assert answer["Location"] == f"{reverse('rate')}?again={slot.pk}"
    assert f'data-reclaim="{slot.pk}"' in rater.get(answer["Location"]).content.decode()
    shown = rater.post(f"{reverse('rate-next')}?again={slot.pk}").content.decode()
    assert 'value="3"' in shown and "checked" in shown
    answer = rater.post(reverse("my-work-change", args=[first.pk]), follow=True)
    assert "You can undo only your last 10 ratings." in answer.content.decode()


def test_rating_of_another_user_cannot_be_changed(rated, client, alice):
    rated(3)
    client.force_login(alice)
    answer = client.post(reverse("my-work-change", args=[Rating.objects.get().pk]))
    assert answer.status_code == 404


def test_agreement_and_disputes_appear_only_where_the_run_shows_them(rated, bob, alice, project):
    carol = type(bob).objects.create(username="dora")
    Membership.objects.create(project=project, user=carol, role="rater")
    for is_blind in (False, True):
        run = rated(5, 1, blind=is_blind, overlap=2, ask_first="worth")
        rated(5, 5, person=carol, run=run)
        agreed, disputed = with_others(bob)
        if not is_blind:
            [one] = agreed
            assert (one.run, one.agreed, one.of) == (run, 1, 2)
            [two] = disputed
            assert (two.mine, two.others, two.decided) == ("1 of 5 stars", ["5 of 5 stars"], "")
    assert len(agreed) == 1, "the blind run adds nothing"


def test_guess_of_the_rater_model_is_shown_once_the_rating_is_final(rated, rater):
    run = rated(4, show_guess=True, rater_model={})
    rating = Rating.objects.get()
    model = RaterModel.objects.create(
        run=run, number=1, kind="ridge", decisions=1, last_rating=rating
    )
    Prediction.objects.create(rating=rating, rater_model=model, mean=0.5, deviation=0.1)
    assert "3.0 stars" not in text(rater), "the rating can still be changed"
    Slot.objects.filter(item=rating.item).update(state="closed")
    assert "3.0 stars" in text(rater)
    Run.objects.filter(pk=run.pk).update(
        config={**run.config, "people": {**run.config["people"], "show_guess": False}}
    )
    assert "3.0 stars" not in text(rater)


def test_the_number_of_queries_does_not_grow_with_the_ratings(
    rated, rater, django_assert_max_num_queries
):
    run = rated(1)
    text(rater)
    rated(2, 3, 4, 5, run=run)
    with django_assert_max_num_queries(22):
        text(rater)
