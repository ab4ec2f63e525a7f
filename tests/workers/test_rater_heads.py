"""A scalar head trained on a run's decisions: it predicts people's ratings and is used only when it
is as good as the ridge.
"""

import uuid

import pytest

from apps.feedback.models import RaterModel, Rating
from apps.feedback.rater_model import heads, learning
from apps.feedback.rater_model.base_nll import save_base_nll
from apps.feedback.rater_model.learning import learn
from apps.feedback.rater_model.predicted_rewards import write_model_rewards
from apps.feedback.rater_model.reading import BaseNll
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.workers.trainer.conftest import base, tiny_run  # noqa: F401
from workers.rater_heads import fitting, launching, training
from workers.rater_heads.launching import score_with_head
from workers.trainer.lessons.tokenization import LessonTokenizer

pytestmark = pytest.mark.django_db
GOOD = ["11111", "1112", "111"]
BAD = ["98765", "9876", "999"]


@pytest.fixture
def told(tiny_run, finish, bob, settings, tmp_path, monkeypatch) -> Run:
    """Create a run with 60 rated replies: ones got five stars, nines got one star."""
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    monkeypatch.setattr(fitting, "UPDATES", 60)
    monkeypatch.setattr(fitting, "LEARNING_RATE", 5e-3)
    learning.clear_learning_state()
    section = {"kind": "scalar_head", "head_min_ratings": 50}
    people = {"per_group": 1, "at_deadline": "fill_with_rater_model", "rater_model": section}
    run = tiny_run(rewards=[], people=people, groups_per_step=8)
    finish(run, [*GOOD, *BAD], groups=16)
    rollouts = list(Rollout.objects.filter(run=run).order_by("pk"))
    save_base_nll({rollout.pk: BaseNll(1.0, 2.0, 0) for rollout in rollouts})
    for rollout in rollouts[:60]:
        said = {
            "form": "stars",
            "answer": {"stars": 5 if rollout.text in GOOD else 1},
            "shown": [rollout.pk],
        }
        Rating.objects.create(run=run, rater=bob, rollout=rollout, client_uuid=uuid.uuid4(), **said)
    return run


def test_head_scores_replies_like_people_and_gives_rewards(told):
    learn(told)
    row = training.train_head(told)
    assert row.kind == "scalar_head" and row.decisions == 60 and row.metrics["is_used"]
    assert row.metrics["accuracy"]["share"] == 1.0 and row.metrics["accuracy"]["decisions"] == 12
    groups = list(Group.objects.all())
    write_model_rewards(groups, score_with_head)
    rewards = Reward.objects.filter(scorer="rater_model")
    assert set(rewards.values_list("details__rater_model", flat=True)) == {row.number}
    good, bad = (
        rewards.filter(rollout__text__in=texts).values_list("value", flat=True)
        for texts in (GOOD, BAD)
    )
    assert min(good) > 0.7 and max(bad) < 0.3


def backwards(model, told):
    """Return scores that rank the replies the wrong way round."""
    replies = list({reply for one in told for reply in one.replies})
    return replies, [float(reply.text in BAD) for reply in replies]


def test_head_worse_than_the_ridge_is_not_used(told, monkeypatch):
    monkeypatch.setattr(training, "fit_head", lambda run, pool, folder: folder.mkdir(parents=True))
    monkeypatch.setattr(training, "LoadedModel", lambda folder: None)
    monkeypatch.setattr(training, "_scored", backwards)
    assert not training.train_head(told).metrics["is_used"] and heads.find_newest_head(told) is None


def test_ridge_is_used_when_the_heads_weights_are_missing(told, bob):
    known = learn(told)
    last = Rating.objects.latest("pk")
    coefficients = {"folder": "/nonexistent", "base": 0.0, "slope": 1.0, "deviation": 0.1}
    RaterModel.objects.create(
        run=told,
        number=9,
        kind="scalar_head",
        decisions=60,
        last_rating=last,
        coefficients=coefficients,
        metrics={"is_used": True},
    )
    write_model_rewards(list(Group.objects.all()), score_with_head)
    assert set(
        Reward.objects.filter(scorer="rater_model").values_list("details__rater_model", flat=True)
    ) == {known.number}


def head_of(run: Run, decisions: int) -> RaterModel:
    metrics = {"is_used": False}
    last = Rating.objects.latest("pk")
    return RaterModel.objects.create(
        run=run,
        number=1,
        kind="scalar_head",
        decisions=decisions,
        last_rating=last,
        metrics=metrics,
    )


def test_head_is_due_after_enough_decisions_and_again_after_a_quarter_more(told):
    assert heads.count_due_decisions(told) == 60
    row = head_of(told, 49)
    assert heads.count_due_decisions(told) is None
    RaterModel.objects.filter(pk=row.pk).update(decisions=48)
    assert heads.count_due_decisions(told) == 60
    Rating.objects.filter(pk__in=Rating.objects.order_by("pk")[:11].values("pk")).update(
        is_withdrawn=True
    )
    RaterModel.objects.all().delete()
    assert heads.count_due_decisions(told) is None, "49 of the required 50"


def test_flags_do_not_make_a_new_head_due(told, carol):
    """Flags and comments do not count towards a new head, since the decisions of the last one do
    not include them either.
    """
    row = head_of(told, 60)
    for rollout in Rollout.objects.filter(run=told)[:40]:
        about = {
            "run": told,
            "rater": carol,
            "rollout": rollout,
            "shown": [rollout.pk],
            "client_uuid": uuid.uuid4(),
        }
        Rating.objects.create(**about, form="flag", answer={"reason": "cut off"})
    assert (
        len(heads.list_learnable_decisions(told))
        == heads.count_learnable(told)
        == 60
        == row.decisions
    )
    assert heads.count_due_decisions(told) is None


def test_failed_training_is_retried_only_after_a_quarter_more_decisions(told, monkeypatch):
    monkeypatch.setattr(launching.sys, "executable", "/bin/false")
    monkeypatch.setattr(launching, "_tried", {})
    launching.train_where_due([told])
    assert launching._training[told.pk].wait() == 1
    launching.train_where_due([told])
    assert told.pk not in launching._training and not RaterModel.objects.exists()
    assert heads.count_due_decisions(told, 49) is None and heads.count_due_decisions(told, 48) == 60


def test_run_with_a_ridge_trains_no_head(modelled_by_ridge):
    assert heads.count_due_decisions(modelled_by_ridge) is None


@pytest.fixture
def modelled_by_ridge(new_run) -> Run:
    return new_run(
        rewards=[],
        people={"per_group": 1, "at_deadline": "fill_with_rater_model", "rater_model": {}},
    )


def test_decisions_become_pairs_of_differently_rated_replies(told):
    pairs = training.build_preference_pairs(heads.list_learnable_decisions(told))
    assert len(pairs) == 45 * 15  # three of each group's four replies are good
    assert all(better.text in GOOD and worse.text in BAD for better, worse in pairs)


def test_pairs_longer_than_the_policys_context_are_skipped(told):
    lesson_tokenizer = LessonTokenizer(told.policy.folder, 12)
    short, long = (
        heads.Reply('[{"role": "user", "content": "1"}]', text) for text in ("1", "1" * 40)
    )
    [(better, _)] = fitting.encode_pairs(lesson_tokenizer, [(short, short), (short, long)])
    assert len(better) <= 12
    with pytest.raises(ValueError, match="fits the policy's context of 12 tokens"):
        fitting.encode_pairs(lesson_tokenizer, [(long, short)])
