"""Each single operator: what it keeps, what it leaves out and why."""

import random
from collections.abc import Sequence
from itertools import combinations

import pytest
from pydantic import ValidationError

from apps.pipelines.operators import FAMILIES, find_operator, find_operator_problems, operator_names
from apps.pipelines.operators.contract import BATCH, EXPERIENCES, GROUPS, TASKS, Filtered, Sample
from apps.pipelines.operators.duplicates import hash_shingles, jaccard
from apps.pipelines.tasks import STORED
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.overlap import Pair


def sample(rollout: int, **known: object) -> Sample:
    return Sample(**{"rollout": rollout, "group": 1, "text": "a b c", "reward": 1.0, **known})


def applied(name: str, samples: list[Sample], **options: object):
    operator = find_operator(name)
    return operator.call(samples, operator.read_options(options))


def kept(name: str, samples: list[Sample], **options: object) -> list[int]:
    return [one.rollout for one in applied(name, samples, **options).kept]


def of_rewards(*groups: tuple[float, ...], **known: object) -> list[Sample]:
    rows = [(group, reward) for group, rewards in enumerate(groups) for reward in rewards]
    return [
        sample(rollout, group=group, reward=reward, **known)
        for rollout, (group, reward) in enumerate(rows)
    ]


STAGES = {TASKS, GROUPS, EXPERIENCES, BATCH}


@pytest.mark.parametrize("name", operator_names())
def test_every_operator_has_a_summary_family_stages_and_field_descriptions(name):
    operator = find_operator(name)
    assert (
        operator.summary
        and operator.family in FAMILIES
        and set(operator.stages) <= STAGES
        and operator.stages
    )
    assert all(field.description for field in operator.options.model_fields.values())
    assert TASKS not in operator.stages or set(operator.asks) <= STORED.keys()
    assert BATCH not in operator.stages or not operator.asks


NEEDED = {
    "arithmetic": {"operand": "tokens"},
    "spread_most": {"keep": 2},
    "judges_agree": {"scorers": ["one", "other"]},
    "contaminated": {"tasksets": ["test"]},
    "difficulty_band": {"low": 0.5},
    "token_budget": {"max_tokens": 3},
    "advantages": {"normalise": True, "max_advantage": 1.0},
    "data_juicer": {"op": "text_length_filter"},
}


@pytest.mark.parametrize("name", operator_names())
def test_every_operator_accepts_no_samples_and_gives_a_reason_for_each_left_out(name):
    options = NEEDED.get(name, {})
    assert applied(name, [], **options).kept == []
    texts = ["", "i cannot help with that", "a " * 80, "\ufffd", "слово", "fine"]
    filtered = {
        find_operator("data_juicer").read_options(NEEDED["data_juicer"]).key: {
            text: Filtered(len(text) > 9) for text in texts
        }
    }
    samples = [
        sample(
            n,
            text=text,
            reward=n % 2,
            tokens=n,
            stop_reason="length" if n == 5 else "stop",
            age=n % 3,
            advantage=n - 2.0,
            also_in={"test": Pair(7, 0, 1.0, True) if n == 3 else None},
            guessed=(n, 8) if n > 3 else None,
            filtered=filtered,
        )
        for n, text in enumerate(texts)
    ]
    said = applied(name, samples, **options)
    left = {one.rollout for one in samples} - {one.rollout for one in said.kept}
    assert all(said.reasons[rollout] for rollout in left) and [
        one.rollout for one in said.kept
    ] == sorted(one.rollout for one in said.kept)


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        ("drop", [(1, 1.0, "")]),
        ("mask", [(1, 1.0, ""), (2, 1.0, "truncated at the maximum length")]),
        ("penalise", [(1, 1.0, ""), (2, 0.75, "")]),
    ],
)
def test_truncated_replies_are_dropped_masked_or_penalised(do, expected):
    samples = [sample(1, stop_reason="stop"), sample(2, stop_reason="length")]
    said = applied("truncated", samples, action=do, penalty=0.25)
    assert [(one.rollout, one.reward, one.silent) for one in said.kept] == expected


def test_reply_stopped_in_a_loop_counts_as_truncated_by_default():
    samples = [sample(1, stop_reason="repetition"), sample(2, stop_reason="length")]
    assert kept("truncated", samples, action="drop") == [] and kept(
        "truncated", samples, action="drop", stop_reasons=["length"]
    ) == [1]
    assert applied("truncated", samples, action="drop").reasons[1] == "stopped in a loop"


def test_reply_stopped_by_the_time_limit_counts_as_truncated_by_default():
    samples = [sample(1, stop_reason="time"), sample(2, stop_reason="stop")]
    assert kept("truncated", samples, action="drop") == [2] and kept(
        "truncated", samples, action="drop", stop_reasons=["length"]
    ) == [1, 2]
    assert applied("truncated", samples, action="drop").reasons[1] == "stopped by the time limit"


def test_refusals_are_recognised_by_their_beginning():
    texts = [
        "I\u2019m sorry, but I can\u2019t do that.",
        "Sure: as they say, " + "x" * 200 + " I cannot help",
        "7",
    ]
    assert kept("refusal", [sample(n, text=text) for n, text in enumerate(texts)]) == [1, 2]


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("It is used as an aid in surgery.", False),
        ("As an airline pilot I fly.", False),
        ("Hi am unable to, he wrote.", False),
        ("I can't help but smile.", False),
        ('He said: "I cannot help you".', False),
        ("She, as an AI researcher, knows.", False),
        ("<think>I cannot help with that.</think>4", False),
        ("As an AI language model, I cannot judge.", True),
        ("Unfortunately, I cannot assist with this.", True),
        ("**I'm unable to** do that.", True),
        ("Sorry \u2014 I can\u2019t assist.", True),
    ],
)
def test_refusal_phrase_counts_only_at_the_beginning_of_a_clause(text, refuses):
    assert kept("refusal", [sample(1, text=text)]) == ([] if refuses else [1])


def test_characters_of_later_unicode_versions_are_accepted():
    texts = ["Well done \U0001fa77", "\U0001fae9", "\ufdd0", "\U00050000", "\ue000"]
    assert kept("encoding", [sample(n, text=text) for n, text in enumerate(texts)]) == [0, 1]


def test_broken_characters_are_recognised():
    texts = [
        "naïve café, 5 °C\tand 日本\n",
        "caf\u00c3\u00a9",
        "it\u00e2\u20ac\u2122s",
        "a\ufffdb",
        "a\x07b",
        "",
    ]
    assert kept("encoding", [sample(n, text=text) for n, text in enumerate(texts)]) == [0, 5]
    assert kept("encoding", [sample(1, text="a\ufffd" + "b" * 98)], max_broken_share=0.01) == [1]


def test_loops_are_left_out_and_long_replies_are_kept():
    words = [f"w{n}" for n in range(200)]
    samples = [
        sample(1, text="go on and on " * 40),
        sample(2, text=" ".join(words)),
        sample(3, text=""),
    ]
    assert kept("repetition", samples) == [2, 3]


def test_loops_without_spaces_are_left_out_and_normal_sentences_are_kept():
    loops = ["谢谢" * 8, "ありがとう" * 8, "ขอบคุณ" * 8]
    usual = [
        "今天天气很好，我们去公园散步，然后回家吃饭。",
        "日本語の文章は普通に書かれていて、繰り返しはあまりありません。",
    ]
    samples = [sample(n, text=text) for n, text in enumerate([*loops, *usual])]
    assert kept("repetition", samples) == [3, 4]


def test_group_whose_task_is_in_an_evaluation_set_is_removed_whole():
    met = [Pair(4, 0, 1.0, True), Pair(5, 0, 0.7, False), Pair(5, 0, 0.69, False), None]
    samples = [
        sample(2 * n + m, group=n, also_in={"easy": None, "test": pair})
        for n, pair in enumerate(met)
        for m in (0, 1)
    ]
    said = applied("contaminated", samples, tasksets=["easy", "test"])
    assert [one.rollout for one in said.kept] == [4, 5, 6, 7]
    assert said.reasons[1] == "identical to task 4 of evaluation set test"
    assert said.reasons[3] == "contains 70% of task 5 of evaluation set test"
    assert kept("contaminated", samples, tasksets=["test"], share=0.71) == [2, 3, 4, 5, 6, 7]


def test_missing_evaluation_set_raises_an_error():
    with pytest.raises(LookupError, match="'gone'"):
        applied("contaminated", [sample(1, also_in={"test": None})], tasksets=["test", "gone"])


def test_groups_of_easily_guessed_tasks_are_removed_whole():
    tried = [None, (0, 8), (1, 8), (4, 8)]
    samples = [
        sample(2 * n + m, group=n, guessed=found) for n, found in enumerate(tried) for m in (0, 1)
    ]
    said = applied("easy_to_guess", samples)
    assert [one.rollout for one in said.kept] == [0, 1, 2, 3]
    assert said.reasons[4] == "the task was guessed correctly without reasoning in 1 of 8 tries"
    assert kept("easy_to_guess", samples, max_guess_rate=0.25) == [0, 1, 2, 3, 4, 5]
    assert kept("easy_to_guess", samples, max_guess_rate=0.25, unchecked="drop") == [2, 3, 4, 5]
    assert "has not been checked" in applied("easy_to_guess", samples, unchecked="drop").reasons[0]


def test_letters_of_other_scripts_are_counted():
    samples = [
        sample(1, text="only latin 123"),
        sample(2, text="слово and слово"),
        sample(3, text="42"),
    ]
    assert kept("language", samples) == [1, 3]
    assert kept("language", samples, scripts=["cyrillic"], min_share=0.5) == [2, 3]


def test_formulas_and_code_do_not_count_as_language():
    texts = [
        "答案是 x^2 + y^2 = 4，所以 \\boxed{4}",
        "求 `print(x)` 与 $\\sin x$，5 km",
        "答案 is the answer",
    ]
    assert kept(
        "language", [sample(n, text=text) for n, text in enumerate(texts)], scripts=["cjk"]
    ) == [0, 1]


def test_unknown_script_is_refused():
    with pytest.raises(ValidationError, match="unknown script 'han'; say cjk"):
        find_operator("language").read_options({"scripts": ["han"]})


def test_text_rejected_by_a_data_juicer_filter_is_removed_with_its_statistics():
    options = {"op": "text_length_filter", "args": {"min_len": 2, "max_len": 3}}
    said = {
        "a": Filtered(False, {"text_len": 1.0, "share": 0.12345}),
        "ab": Filtered(True, {"text_len": 2.0}),
    }
    filtered = {find_operator("data_juicer").read_options(options).key: said}
    samples = [sample(1, text="a", filtered=filtered), sample(2, text="ab", filtered=filtered)]
    found = applied("data_juicer", samples, **options)
    assert [one.rollout for one in found.kept] == [2] and found.reasons[
        1
    ] == "text_length_filter: text_len 1, share 0.123"
    other_order = {"op": "text_length_filter", "args": {"max_len": 3, "min_len": 2}}
    assert kept("data_juicer", samples, **other_order) == [2]


def test_text_without_a_filter_result_raises_an_error():
    asked = find_operator("data_juicer").read_options({"op": "text_length_filter"}).key
    silent = sample(
        1, text="a", filtered={asked: {"a": Filtered(failed="the process exited with -9")}}
    )
    with pytest.raises(LookupError, match="text_length_filter: the process exited with -9"):
        applied("data_juicer", [silent], op="text_length_filter")
    with pytest.raises(LookupError):
        applied("data_juicer", [sample(1, text="a")], op="text_length_filter")


def test_reward_equal_to_the_threshold_is_kept():
    assert kept("reward_at_least", of_rewards((0.49, 0.5, 0.51)), threshold=0.5) == [1, 2]


def test_groups_without_spread_are_removed_whole():
    assert kept("reward_spread", of_rewards((1, 1), (0, 1), (5,))) == [2, 3]
    assert kept("reward_spread", of_rewards((0, 0.2), (0, 1)), std_threshold=0.1) == [
        2,
        3,
    ]  # (0, 0.2) has a spread of exactly 0.1


def test_success_band_is_relative_to_the_full_reward():
    samples = of_rewards((0, 0), (1, 0), (2, 2), (2, 0), full=2.0)
    assert kept("success_band", samples, low=0.2, high=0.8) == [2, 3, 6, 7]
    assert (
        "too easy" in applied("success_band", samples).reasons[4]
        and "too hard" in applied("success_band", samples).reasons[0]
    )
    with pytest.raises(ValidationError, match="must not be greater than high"):
        find_operator("success_band").read_options({"low": 0.9, "high": 0.1})


def test_dynamic_sampling_can_use_one_scorer_instead_of_the_combined_reward():
    rows = [
        sample(1, group=1, reward=0.9, by_scorer={"math": 1.0}),
        sample(2, group=1, reward=0.1, by_scorer={"math": 1.0}),
    ]
    rows += [
        sample(3, group=2, reward=0.5, by_scorer={"math": 0.0}),
        sample(4, group=2, reward=0.5, by_scorer={"math": 1.0}),
    ]
    assert kept("dynamic_sampling", rows, scorer="math") == [3, 4]
    assert kept("dynamic_sampling", rows) == [1, 2]
    assert "gave no reward to 2" in applied("dynamic_sampling", rows, scorer="other").reasons[1]


def test_length_has_a_lower_and_an_upper_limit():
    samples = [sample(n, tokens=n) for n in (1, 5, 9)]
    assert kept("length", samples, min_tokens=2, max_tokens=8) == [5] and kept(
        "length", samples
    ) == [1, 5, 9]
    with pytest.raises(ValidationError, match="must not be greater than max_tokens"):
        find_operator("length").read_options({"min_tokens": 9, "max_tokens": 8})


def test_age_is_counted_in_weight_versions():
    assert kept("fresh", [sample(n, age=n) for n in (0, 1, 2)], max_staleness=1) == [0, 1]


def test_rollout_on_which_judges_disagree_is_removed_and_missing_judges_are_ignored():
    said = [{"a": 1.0, "b": 0.9}, {"a": 1.0, "b": 0.0}, {"a": 1.0, "b": None}, {}]
    samples = [sample(n, by_scorer=values) for n, values in enumerate(said)]
    result = applied("judges_agree", samples, scorers=["a", "b"], max_difference=0.5)
    assert [one.rollout for one in result.kept] == [0, 2, 3] and "a gives 1, b 0" in result.reasons[
        1
    ]


def test_human_ratings_are_required_per_group_or_per_answer():
    samples = [sample(1, group=1, by_people=0.5), sample(2, group=1), sample(3, group=2)]
    assert kept("rated_by_people", samples) == [1, 2]
    assert kept("rated_by_people", samples, level="answer") == [1]


@pytest.mark.parametrize(
    ("do", "weight", "expected"),
    [
        ("add", 0.5, 3.0),
        ("subtract", 0.5, 1.0),
        ("multiply", 2, 8.0),
        ("divide", 2, 0.5),
        ("divide", 0, 2.0),
    ],
)
def test_arithmetic_uses_the_weighted_number(do, weight, expected):
    [shaped] = applied(
        "arithmetic",
        [sample(1, reward=2.0, by_scorer={"math": 2.0})],
        operand="math",
        operation=do,
        weight=weight,
    ).kept
    assert shaped.reward == expected


def test_unknown_value_leaves_the_reward_unchanged():
    samples = [sample(1, reward=2.0), sample(2, reward=2.0, by_people=1.0, tokens=10)]
    assert [one.reward for one in applied("arithmetic", samples, operand="people").kept] == [
        2.0,
        3.0,
    ]
    assert [
        one.reward for one in applied("arithmetic", samples, operand="tokens", weight=-0.1).kept
    ] == [2.0, 1.0]


def test_subset_with_the_largest_spread_is_kept():
    draw = random.Random(5)
    for _ in range(30):
        rewards = [draw.choice((0.0, 0.25, 0.5, 1.0)) for _ in range(7)]
        samples = of_rewards(tuple(rewards))
        left = [rewards[n] for n in kept("spread_most", samples, keep=3)]
        assert _spread(left) == pytest.approx(
            max(_spread(subset) for subset in combinations(rewards, 3))
        )
    assert kept("spread_most", of_rewards((1, 0)), keep=4) == [0, 1]


def _spread(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def test_first_of_near_duplicates_is_kept():
    words = [f"w{n}" for n in range(60)]
    texts = [
        " ".join(words),
        " ".join([*words[:-1], "other"]),
        " ".join(reversed(words)),
        " ".join(words).upper(),
        "",
        "",
    ]
    said = applied(
        "duplicates", [sample(n, text=text) for n, text in enumerate(texts)], similarity=0.9
    )
    assert [one.rollout for one in said.kept] == [
        0,
        2,
        4,
    ] and "near-duplicate of rollout 0" in said.reasons[3]


def test_near_duplicates_equal_those_of_comparing_every_pair():
    draw = random.Random(3)
    base = [[draw.choice("abcdefghij") * 3 for _ in range(40)] for _ in range(6)]
    texts = []
    for _ in range(80):
        words = list(draw.choice(base))
        for _ in range(draw.randrange(4)):
            words[draw.randrange(len(words))] = f"x{draw.randrange(1000)}"
        texts.append(" ".join(words))
    expected: list[int] = []
    for n, text in enumerate(texts):
        if all(
            jaccard(hash_shingles(text, 3), hash_shingles(texts[other], 3)) < 0.8
            for other in expected
        ):
            expected.append(n)
    assert (
        kept("duplicates", [sample(n, text=text) for n, text in enumerate(texts)], similarity=0.8)
        == expected
    )
    assert len(expected) < 80


@pytest.mark.parametrize(
    "text",
    [
        "答案是四因为二加二等于四",
        "答えは四です、二足す二は四だから",
        "คำตอบคือสี่เพราะสองบวกสองเท่ากับสี่",
    ],
)
def test_texts_without_spaces_are_compared_too(text):
    same = sample(2, text=f"{text}。")
    other = sample(3, text="完全に別のことを言っている文章です")
    assert kept("duplicates", [sample(1, text=text), same, other]) == [1, 3]


def test_answers_of_different_groups_are_not_duplicates():
    assert kept("duplicates", [sample(1, group=1), sample(2, group=2)]) == [1, 2]


@pytest.mark.parametrize(
    ("choice", "field", "words"),
    [
        ({"operator": "truncted"}, "0.operator", "did you mean 'truncated'"),
        ({"operator": "length", "options": {"moost": 4}}, "0.options.moost", "not an option"),
        (
            {"operator": "length", "options": {"max_tokens": 0}},
            "0.options.max_tokens",
            "greater than or equal to 1",
        ),
        ({"operator": "truncated", "stage": "experiences"}, "0.stage", "works on groups"),
    ],
)
def test_invalid_pipeline_is_reported_by_field(choice, field, words):
    problems = find_operator_problems([OperatorChoice(**choice)])
    assert words in problems[field]


def test_prompt_length_is_measured_in_characters_or_words():
    samples = [sample(1, text="one two three"), sample(2, text="one"), sample(3, text="")]
    assert kept("prompt_length", samples) == [1, 2] and kept(
        "prompt_length", samples, max_length=3
    ) == [2]
    assert kept("prompt_length", samples, min_length=2, max_length=3, unit="words") == [1]
    assert (
        applied("prompt_length", samples, min_length=2, unit="words").reasons[2]
        == "the prompt has 1 words, fewer than 2"
    )


def test_difficulty_is_read_from_the_scale_or_else_from_the_task_metadata():
    samples = [
        sample(1, scales={"hard": 0.5}, meta={"hard": 9}),
        sample(2, meta={"hard": 0.2}),
        sample(3, meta={"hard": True}),
        sample(4, meta={"hard": "0.5"}),
        sample(5),
    ]
    said = applied("difficulty_band", samples, scale="hard", low=0.3, high=0.6)
    assert [one.rollout for one in said.kept] == [1]
    assert (
        said.reasons[2] == "hard is 0.2, below 0.3"
        and said.reasons[3] == "the task has no number 'hard'"
    )
    assert kept("difficulty_band", samples, scale="hard", low=0.3, unknown="keep") == [1, 3, 4, 5]


def test_answers_with_too_small_advantages_are_removed():
    samples = [sample(n, advantage=advantage) for n, advantage in enumerate((0.0, -0.1, 0.1, 2.0))]
    assert kept("advantage_above", samples) == [1, 2, 3] and kept(
        "advantage_above", samples, threshold=0.1
    ) == [3]


def test_advantages_are_divided_by_their_root_mean_square_and_then_clipped():
    samples = [sample(n, advantage=advantage) for n, advantage in enumerate((3.0, -4.0, 0.0, 5.0))]
    spread = (50 / 4) ** 0.5
    scaled = [one.advantage for one in applied("advantages", samples, normalise=True).kept]
    assert scaled == pytest.approx([3 / spread, -4 / spread, 0, 5 / spread], abs=1e-5)
    held = [
        one.advantage
        for one in applied("advantages", samples, normalise=True, max_advantage=1.0).kept
    ]
    assert held == pytest.approx([3 / spread, -1, 0, 1], abs=1e-5)
    assert [one.advantage for one in applied("advantages", samples, max_advantage=4.5).kept] == [
        3.0,
        -4.0,
        0.0,
        4.5,
    ]
    assert [
        one.advantage
        for one in applied("advantages", [sample(1, advantage=0.0)], normalise=True).kept
    ] == [0.0]


def test_token_budget_keeps_whole_groups_in_order():
    samples = [
        sample(2 * n + m, group=n, tokens=tokens)
        for n, tokens in enumerate((30, 20, 5, 5))
        for m in (0, 1)
    ]
    assert kept("token_budget", samples, max_tokens=75) == [0, 1, 4, 5]
    assert kept("token_budget", samples, max_tokens=1) == [0, 1]  # the first group always fits
    assert (
        applied("token_budget", samples, max_tokens=75).reasons[2]
        == "the group's 40 tokens plus 60 of earlier groups exceed 75"
    )
