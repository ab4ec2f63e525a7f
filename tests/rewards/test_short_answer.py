"""Short answers: references in sentences, ideas in any order, and lists of everything."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer

SCHEME = {
    "ideas": [
        {"any_of": ["stores water"], "points": 2},
        {"any_of": ["cactus"], "points": 1},
    ]
}
CACTUS = 1 / 3
STORES = 2 / 3  # the reward for either idea alone


def value(response: str, answer: dict) -> float | None:
    return find_scorer("short_answer").judge([RolloutView(response)], TaskView((), answer))[0].value


REFERENCES = [
    (r"\boxed{\text{Paris}}", 1),
    ("It was Paris that they chose.", 1),
    ("Paris — die Hauptstadt.", 1),
    ("Paris, I believe.", 1),
    ("The answer is Paris.", 1),
    ("The capital is Paris.", 1),
    ("Paris", 1),
    ("Paris.", 1),
    ("Paris is the capital.", 1),
    ("It is Paris.", 1),
    ("I think it is Paris.", 1),
    ("The capital of France is Paris.", 1),
    ("It is Paris, the capital of France.", 1),
    ("It is not Paris.", 0),
    ("Paris or London", 0),
    ("Paris, London, Rome", 0),
    ("The capital is Lyon.", 0),
    ("London", 0),
    ("Versailles is near Paris.", 0),
    ("The capital is Paris or Lyon.", 0),
    ("La capitale est Paris.", 1),
    ("Die Hauptstadt ist Paris.", 1),
    ("首都是 Paris。", 1),
    ("Answer: Paris", 1),
    ("**Paris**", 1),
    ("<think>London</think>Paris", 1),
    ("It isn't Paris.", 0),
    ("Maybe Paris, maybe London.", 0),
    ("The capital is Paris, not London.", 1),
    ("The capital is London, not Paris.", 0),
    ("paris", 1),
    (r"\boxed{Paris}", 1),
    ("The capital is called Paris.", 1),
]
IDEAS = [
    ("The cactus stores the water.", 1),
    ("Water is stored in the cactus.", 1),
    ("Water is stored by the cactus.", 1),
    ("The cactus stores a lot of water.", 1),
    ("A cactus stores its water.", 1),
    ("The cactus, storing water, survives.", 1),
    ("Cactus: stores water", 1),
    ("The cactus does not store water.", CACTUS),
    ("Water stores the cactus.", CACTUS),
    ("The oak stores water.", STORES),
    ("Cactus or oak; stores water or makes seeds.", 0),
    ("Cactus, oak, rose, moss, fern: stores water, makes seeds, climbs walls, eats flies.", 0),
    (
        (
            "The cactus, the oak, the rose, the moss and the fern store water, make seeds, climb"
            " walls and eat flies."
        ),
        0,
    ),
    (
        (
            "It could be the cactus, the oak, the rose, the moss or the fern; it stores water or"
            " makes seeds or climbs walls."
        ),
        0,
    ),
    ("In the desert, where it rarely rains, the cactus, a plant, stores water.", 1),
    ("- cactus\n- oak\n- rose\n- moss\n- stores water\n- makes seeds\n- climbs walls", 0),
    (
        (
            "The cactus stores water because it rarely rains, and its leaves are thin, so little is"
            " lost."
        ),
        1,
    ),
    ("", 0),
]


@pytest.mark.parametrize(("response", "worth"), REFERENCES)
def test_reference_is_found_where_a_sentence_states_the_answer(response, worth):
    assert value(response, {"reference": "Paris"}) == worth


@pytest.mark.parametrize(
    ("response", "reference", "worth"),
    [
        ("答案是巴黎", "巴黎", 1),
        ("法国的首都是巴黎。", "巴黎", 1),
        ("首都は東京です。", "東京", 1),
        ("Столица — Париж.", "Париж", 1),
        ("首都不是东京。", "东京", 0),
        ("我认为是东京或大阪", "东京", 0),
    ],
)
def test_reference_is_found_in_scripts_without_spaces_and_after_a_dash(response, reference, worth):
    assert value(response, {"reference": reference}) == worth


OXYGEN = {"ideas": [{"any_of": ["absorbs light"]}, {"any_of": ["produces oxygen"]}]}


@pytest.mark.parametrize(
    ("response", "worth"),
    [
        ("Oxygen is not produced. Light is absorbed.", 0.5),
        ("It never produces oxygen, it absorbs light.", 0.5),
        ("It would be wrong to say that it absorbs light.", 0),
        ("Light is absorbed, and oxygen is produced.", 1),
    ],
)
def test_denial_affects_only_its_own_statement(response, worth):
    assert value(response, OXYGEN) == worth


@pytest.mark.parametrize(("response", "worth"), IDEAS)
def test_ideas_are_found_in_any_order_but_not_in_lists_of_everything(response, worth):
    assert value(response, SCHEME) == pytest.approx(worth)


def test_words_repeated_from_the_question_are_not_another_answer():
    task = TaskView(
        [{"role": "user", "content": "Which city hosts the parliament of France?"}],
        {"reference": "Paris"},
    )
    assert find_scorer("short_answer").judge([RolloutView("Paris hosts it")], task)[0].value == 1.0
