"""How far people agree with each other, and each with their own repeated ratings."""

import uuid

import pytest

from apps.feedback.models import Item, Rating
from apps.feedback.rater_model.standing import measure_agreement
from apps.rollouts.models import Rollout
from tests.feedback.quality.deciding import rater

pytestmark = pytest.mark.django_db


def star(run, by, rollout: Rollout, stars: int, item: Item | None = None) -> Rating:
    said = {
        "form": "stars",
        "answer": {"stars": stars},
        "shown": [rollout.pk],
        "client_uuid": uuid.uuid4(),
    }
    return Rating.objects.create(run=run, rater=by, rollout=rollout, item=item, **said)


@pytest.fixture
def stars(modelled, put, project):
    """Return a run, four of its replies, and two people."""
    run = modelled()
    put(run, groups=2)
    return (
        run,
        list(Rollout.objects.filter(run=run).order_by("pk")),
        rater(project, "ann"),
        rater(project, "ben"),
    )


def test_agreement_compares_only_different_people(stars):
    run, (one, two, *_), ann, ben = stars
    for by, first, second in ((ann, 5, 1), (ann, 4, 2), (ben, 1, 5)):
        star(run, by, one, first)
        star(run, by, two, second)
    found = measure_agreement(run)
    assert (found.people.share, found.people.decisions) == (0.0, 2)
    assert (found.again.share, found.again.decisions) == (1.0, 2)


def test_single_person_has_no_agreement_with_others(stars):
    run, (one, two, *_), ann, _ = stars
    for stars_given in (5, 4):
        star(run, ann, one, stars_given)
        star(run, ann, two, 1)
    found = measure_agreement(run)
    assert found.people.share is None and found.people.decisions == 0 and found.again.share == 1.0


def test_known_items_do_not_count_as_agreement(stars):
    run, (one, two, *_), ann, ben = stars
    for rollout, given in ((one, 5), (two, 1)):
        about = {"run": run, "group_id": rollout.group_id, "form": "stars", "members": [rollout.pk]}
        item = Item.objects.create(**about, purpose="gold", expected={"stars": given})
        for by in (ann, ben):
            star(run, by, rollout, given, item)
    assert measure_agreement(run).people.decisions == 0


def test_comparisons_by_two_people_count_as_agreement_per_pair(modelled, put, project):
    run = modelled(form="pairwise")
    put(run, groups=1)
    pair = list(Rollout.objects.filter(run=run).order_by("pk").values_list("pk", flat=True))
    for name, shown, preference in (("ann", pair, -2), ("ben", pair[::-1], 1), ("ben", pair, 3)):
        said = {
            "form": "pairwise",
            "answer": {"preference": preference},
            "shown": shown,
            "client_uuid": uuid.uuid4(),
        }
        Rating.objects.create(run=run, rater=rater(project, name), rollout_id=pair[0], **said)
    found = measure_agreement(run)
    assert (found.people.share, found.people.decisions) == (1.0, 1)
    assert (found.again.share, found.again.decisions) == (0.0, 1)
