"""What the model learns about replies: fluency, topic, and differences between raters."""

import random

import numpy as np
import pytest

from apps.feedback.rater_model.learner import ComparedReplies, Learner, ValuedReply
from apps.feedback.rater_model.linear import Order
from apps.feedback.rater_model.reading import (
    NUMBERS,
    BaseNll,
    ReplyFeatures,
    Topics,
    Vocabulary,
    extract_features,
)

CALM = BaseNll(0.5, 2.0, 0)
THINGS = ("kettle", "lamp", "chair", "phone", "radio", "clock", "table", "box", "car", "pen", "cup")
PROMPTS = [f"Please help, my {thing} is broken." for thing in THINGS]


def seen(text: str, prompt: str = PROMPTS[0], surprise: BaseNll = CALM) -> ReplyFeatures:
    return extract_features(prompt, text, surprise, Topics(PROMPTS))


def number(reply: ReplyFeatures, name: str) -> float:
    return reply.numbers[NUMBERS.index(name)]


def test_topics_are_words_that_few_prompts_contain():
    assert Topics(PROMPTS).words == set(THINGS)


def test_reply_features_tell_whether_it_mentions_the_topic_or_another():
    right = seen("Sorry about your Kettle!")
    wrong = seen("Sorry about your lamp!")
    none = seen("Go away!")
    assert [number(reply, "names the topic") for reply in (right, wrong, none)] == [1, 0, 0]
    assert [number(reply, "names another topic") for reply in (right, wrong, none)] == [0, 1, 0]


def test_words_are_recognized_in_any_script_and_case():
    assert seen("Größe ÉTÉ 东京!").words == {"grösse", "été", "东京", "!"}


def test_surprise_features_are_computed_from_all_tokens():
    found = BaseNll.of([1.0, 5.0, 3.0])
    assert (found.mean, found.worst, found.rare) == (3.0, 5.0, 1)


@pytest.mark.parametrize("nats", [[], [float("nan")], [1.0, float("inf")]])
def test_surprise_that_is_not_a_number_is_rejected(nats):
    with pytest.raises(ValueError, match="no number"):
        BaseNll.of(nats)


def test_words_beyond_the_columns_share_hashed_columns(monkeypatch):
    monkeypatch.setattr("apps.feedback.rater_model.reading.COLUMNS_FOR_WORDS", 4)
    vocabulary = Vocabulary()
    vocabulary.meet([f"word{n}" for n in range(50)])
    table, unknown = vocabulary.matrix([seen("word1 word49 other")])
    assert vocabulary.width == 4 + 256 and table.shape == (1, len(NUMBERS) + 260)
    assert table[0, len(NUMBERS) :].sum() == 2 and unknown[0] == 1


def taught(
    kindness: dict[int, float], n: int = 120, care: dict[int, float] | None = None
) -> tuple[Learner, list[ReplyFeatures]]:
    """Train a learner on raters who value politeness, each with this kindness and noise."""
    chance = random.Random(0)
    learner = Learner()
    probes = [seen("thank you"), seen("go away")]
    for _ in range(n):
        rater = chance.choice(list(kindness))
        is_polite = chance.random() < 0.5
        value = (
            (0.8 if is_polite else 0.2)
            + kindness[rater]
            + chance.gauss(0, (care or {}).get(rater, 0.05))
        )
        learner.learn(ValuedReply(probes[0] if is_polite else probes[1], value, rater))
    return learner, probes


def test_few_ratings_order_replies_correctly():
    learner, (polite, rude) = taught({1: 0.0}, n=8)
    (best, worst), _ = learner.fit().predict([polite, rude])
    assert best > worst + 0.2


def test_kind_and_strict_raters_are_distinguished():
    fitted = taught({1: 0.15, 2: -0.15})[0].fit()
    offsets = {int(rater): offset for rater, offset in fitted.coefficients()["raters"].items()}
    assert offsets[1] - offsets[2] == pytest.approx(0.3, abs=0.05)


def test_prediction_for_a_kind_rater_is_higher():
    learner, probes = taught({1: 0.15, 2: -0.15})
    fitted = learner.fit()
    kind, stern, anybody = (fitted.predict(probes[:1], rater)[0][0] for rater in (1, 2, None))
    assert kind - stern == pytest.approx(0.3, abs=0.05) and stern < anybody < kind
    assert fitted.predict(probes[:1], 99)[0][0] == anybody


def test_careless_rater_has_less_weight():
    learner, probes = taught({1: 0.0, 2: 0.0, 3: 0.0}, care={3: 0.6})
    means, _ = learner.fit().predict(probes)
    alone = Learner()
    for valued in learner.values:
        alone.learn(ValuedReply(valued.reply, valued.value, 0))
    without, _ = alone.fit().predict(probes)
    right = np.array([0.8, 0.2])
    assert np.abs(means - right).max() < np.abs(without - right).max()


def test_same_ratings_give_the_same_coefficients():
    first, second = (taught({1: 0.1, 2: -0.1})[0].fit() for _ in range(2))
    assert first.coefficients() == second.coefficients()


def test_comparisons_alone_order_replies():
    learner = Learner()
    replies = (seen("thank you"), seen("later"), seen("go away"))
    for _ in range(10):
        learner.learn(ComparedReplies(replies, (Order(0, (1, 2)), Order(1, (2,))), 1))
    means, _ = learner.fit().predict(replies)
    assert means[0] > means[1] > means[2]


def test_reply_with_unknown_words_has_a_larger_deviation():
    learner, probes = taught({1: 0.0}, n=40)
    _, deviations = learner.fit().predict([probes[0], seen("thank you ineffable zebra")])
    assert deviations[1] > deviations[0]
