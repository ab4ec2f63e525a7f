"""The rater model's page: audits, alarms and spending, and who may see them."""

import uuid

import pytest
from django.urls import reverse

from apps.feedback.models import Item, Prediction, RaterModel, Rating, Slot
from apps.feedback.rater_model import learning
from apps.feedback.rater_model.audits import MIN_AUDITS
from apps.feedback.rater_model.pausing import pause_if_alarming
from apps.rollouts.models import Rollout
from apps.runs.models import Run

pytestmark = pytest.mark.django_db
METRICS = {
    "accuracy": {"share": 0.84, "low": 0.76, "high": 0.9, "decisions": 62},
    "light": "green",
    "gap": 0.02,
    "distinct": 0.41,
    "surprise": 0.9,
    "human_mean": 0.7,
    "agreement": {"share": 0.8, "low": 0.6, "high": 0.95, "decisions": 15},
    "alarms": {},
}


def star(rater, rollout: Rollout, stars: int) -> Rating:
    answer = {"stars": stars}
    return Rating.objects.create(
        run_id=rollout.run_id,
        rater=rater,
        rollout=rollout,
        form="stars",
        answer=answer,
        shown=[rollout.pk],
        client_uuid=uuid.uuid4(),
    )


@pytest.fixture
def modelled(new_run) -> Run:
    learning.clear_learning_state()
    people = {
        "per_group": 2,
        "at_deadline": "fill_with_rater_model",
        "rater_model": {},
        "schedule": {"decisions": 150},
    }
    return new_run(rewards=[], people=people)


@pytest.fixture
def fitted(modelled, finish, bob):
    """Return a function that creates a model of that run with these metrics."""

    def make(**metrics) -> RaterModel:
        finish(modelled, ["thank you <b>so</b> much"])
        rollout = Rollout.objects.filter(run=modelled).first()
        rating = Rating.objects.create(
            run=modelled,
            rater=bob,
            rollout=rollout,
            form="stars",
            answer={"stars": 5},
            shown=[rollout.pk],
            client_uuid=uuid.uuid4(),
        )
        known = RaterModel.objects.filter(run=modelled).count()
        return RaterModel.objects.create(
            run=modelled,
            number=known + 1,
            kind="ridge",
            decisions=known + 1,
            last_rating=rating,
            metrics=METRICS | metrics,
            coefficients={"words": {"thank": 0.2, "away": -0.3}},
        )

    return make


@pytest.fixture
def page(client, modelled, alice):
    client.force_login(alice)
    return lambda: client.get(
        reverse("run-rater-model", args=["lab", modelled.slug])
    ).content.decode()


def test_page_says_that_the_model_waits_for_the_first_rating(page):
    assert "No ratings yet" in page()


def test_page_of_a_run_without_rater_model_says_so(client, run, alice):
    client.force_login(alice)
    assert (
        "This run has no rater model"
        in client.get(reverse("run-rater-model", args=["lab", run.slug])).content.decode()
    )


def test_page_shows_accuracy_with_interval_and_agreement_between_people(page, fitted):
    fitted()
    text = page()
    assert (
        "84 %" in text
        and "76 % to 90 %" in text
        and "62 audits" in text
        and "15 replies rated by two people" in text
    )


def test_page_shows_self_agreement_of_raters_separately(page, fitted):
    fitted(
        again={"share": 0.91, "low": 0.7, "high": 1.0, "decisions": 9},
        agreement={**METRICS["agreement"], "share": None},
    )
    text = page()
    assert "Too few replies have two raters" in text
    assert "Raters repeat their own rating" in text and "91 %" in text and "9 replies" in text


def test_page_shows_used_decisions_and_the_replies_filled_in(page, fitted):
    fitted()
    text = page()
    assert "1 of 150" in text and "thank you &lt;b&gt;so&lt;/b&gt; much" in text


@pytest.mark.parametrize(
    ("light", "word"),
    [("red", "Red:"), ("amber", "Amber:"), ("green", "Green:"), ("none", str(MIN_AUDITS))],
)
def test_page_describes_the_traffic_light_in_words(page, fitted, light, word):
    fitted(light=light)
    assert word in page()


UNCHECKED = "No ratings since step 3: the model’s predictions are no longer checked."


@pytest.mark.parametrize(
    ("decisions", "published", "is_told"), [(1, 13, True), (1, 12, False), (2, 13, False)]
)
def test_page_warns_only_when_nobody_audits_the_model_any_more(
    page, modelled, fitted, decisions, published, is_told
):
    """Audit only one reply of version 3 and leave no open question, which is an alarm ten steps
    later.
    """
    model = fitted()
    rating = model.last_rating
    Rollout.objects.filter(pk=rating.rollout_id).update(first_version=3)
    Prediction.objects.create(
        rating=rating, rater_model=model, mean=0.5, deviation=0.1, is_audit=True
    )
    about = {"run": modelled, "group_id": rating.rollout.group_id}
    item = Item.objects.create(**about, form="stars", members=[rating.rollout_id])
    Slot.objects.create(**about, item=item, state="done", due_at=rating.at)
    section = modelled.config["people"]
    modelled.config["people"] = {
        **section,
        "schedule": {**section["schedule"], "decisions": decisions},
    }
    modelled.published_version = published
    modelled.save()
    assert (UNCHECKED in page()) == is_told


def test_page_shows_what_to_do_about_an_alarm(page, fitted):
    fitted(alarms={"settled": "Only 6 % of the replies differ. Ask for two rewrites."})
    assert "Ask for two rewrites." in page()


def test_the_curves_have_running_means_of_twenty_audits(client, modelled, alice, bob, fitted):
    model = fitted()
    rollout = Rollout.objects.filter(run=modelled).first()
    for n in range(25):
        said = Rating.objects.create(
            run=modelled,
            rater=bob,
            rollout=rollout,
            form="stars",
            answer={"stars": 3},
            shown=[rollout.pk],
            client_uuid=uuid.uuid4(),
        )
        Prediction.objects.create(
            rating=said, rater_model=model, mean=0.5 + n / 100, deviation=0.1, is_audit=True
        )
    client.force_login(alice)
    series = client.get(reverse("run-rater-model-curves", args=["lab", modelled.slug])).json()[
        "series"
    ]
    assert len(series["rated"]["y"]) == 6 and set(series["rated"]["y"]) == {0.5}
    assert series["predicted"]["y"][0] == pytest.approx(0.5 + 9.5 / 100) and series["accuracy"][
        "y"
    ] == [0.84]


RED = {"light": "red", "accuracy": {**METRICS["accuracy"], "share": 0.55, "high": 0.7}}


def test_red_light_pauses_the_run_with_a_reason(modelled, fitted):
    fitted(**RED)
    assert pause_if_alarming(modelled)
    modelled.refresh_from_db()
    assert modelled.state == Run.State.PAUSED and "55%" in modelled.state_reason
    assert modelled.topic.events.filter(kind="rater_model_alarmed").exists()


def test_red_light_that_may_be_chance_does_not_pause_the_run(modelled, fitted):
    fitted(light="red", accuracy={"share": 0.65, "low": 0.49, "high": 0.82, "decisions": 31})
    assert not pause_if_alarming(modelled)


def test_resumed_run_is_not_paused_again_for_the_same_alarm(modelled, fitted):
    fitted(**RED)
    pause_if_alarming(modelled)
    modelled.resume()
    fitted(**RED)
    assert not pause_if_alarming(modelled)


def test_resumed_run_is_paused_again_only_by_a_new_alarming_fit_after_a_normal_one(
    modelled, fitted
):
    fitted()
    fitted(**RED)
    assert pause_if_alarming(modelled)
    modelled.resume()
    assert not pause_if_alarming(modelled)
    modelled.refresh_from_db()
    assert modelled.state == Run.State.RUNNING
    fitted()
    assert not pause_if_alarming(modelled)
    fitted(**RED)
    assert pause_if_alarming(modelled), "an alarming fit after a normal one pauses the run"


def test_red_light_does_not_pause_when_raters_agree_or_the_owner_disabled_it(modelled, fitted):
    fitted(**RED, human_mean=0.95)
    assert not pause_if_alarming(modelled)
    fitted(**RED)
    section = modelled.config["people"]
    modelled.config["people"] = {
        **section,
        "rater_model": {**section["rater_model"], "pause_on_red": False},
    }
    assert not pause_if_alarming(modelled)
