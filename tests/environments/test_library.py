"""The library's environments: equal seeds and actions give equal results, nonsense gets a response,
goals give rewards.
"""

import json

import pytest

from apps.environments.library import ENVIRONMENTS
from apps.environments.library.calculator import evaluate_integers
from apps.environments.library.child import Plays
from apps.environments.library.grid_world import MOVES
from apps.environments.library.katas import KATAS, exercise
from apps.environments.library.picture_question import Thing, draw_pixel_text
from apps.environments.observations import check_observation
from apps.rewards.sandbox import bubblewrap, languages
from apps.tasksets import generators

ODD = [
    "",
    "?",
    "7",
    "up",
    "calc(1+1)",
    "9" * 5000,
    "calc(" * 500,
    "answer",
    "\ud800",
    "RIGHT then left",
]


def story(name: str, seed: int, actions: list[str]) -> list:
    environment = ENVIRONMENTS[name]()
    told = [environment.reset(seed, {})]
    for action in actions:
        step = environment.step(action)
        told.append((step.observation, step.reward, step.done))
    environment.close()
    return told


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_same_seed_and_actions_give_the_same_results(name):
    assert story(name, 5, ODD) == story(name, 5, ODD)
    assert len({json.dumps(story(name, seed, ["1", "up", "8"])) for seed in range(40)}) > 1


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_any_action_gets_a_response_and_a_reward_in_the_declared_range(name):
    about = ENVIRONMENTS[name]
    opening, *rest = story(name, 3, ODD)
    assert check_observation(opening) == opening
    for observation, reward, _ in rest:
        assert check_observation(observation) == observation
        assert about.reward_low <= reward <= about.reward_high


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_has_a_task_generator(name):
    first, second = generators.find_generator(name)(2, 0)
    assert first.meta["seed"] != second.meta["seed"] and first.prompt and not first.follow_ups


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("guess_number", {"low": 5, "high": 1}),
        ("calculator", {"terms": 0}),
        ("code_repair", {"size": 1}),
        ("picture_question", {"rows": 9}),
        ("picture_question", {"rows": 1, "columns": 2, "things": 3}),
        ("grid_world", {"size": 99}),
        ("grid_world", {"walls": 1}),
    ],
)
def test_invalid_option_is_rejected_with_its_range(name, options):
    with pytest.raises(ValueError, match=" and "):
        ENVIRONMENTS[name]().reset(0, options)


def test_halving_finds_the_number_and_gets_one_reward():
    environment = ENVIRONMENTS["guess_number"]()
    environment.reset(11, {"low": 1, "high": 16})
    low = 1
    high = 16
    rewards = []
    for _ in range(5):
        guess = (low + high) // 2
        step = environment.step(f"is it {guess} ?")
        rewards.append(step.reward)
        if step.done:
            break
        low, high = (guess + 1, high) if step.observation == "higher" else (low, guess - 1)
    assert step.done and sum(rewards) == 1.0


def test_calculator_returns_a_tool_result_that_is_the_answer():
    environment = ENVIRONMENTS["calculator"]()
    question = environment.reset(2, {})
    called = environment.step(f"let me see calc({question})")
    ((role, result),) = [tuple(message.values()) for message in called.observation]
    assert role == "tool" and int(result) == evaluate_integers(question)
    assert environment.step(f"answer: {result}") == type(called)("right", 1.0, True)


@pytest.mark.parametrize(
    "expression",
    ["9**9**9", "__import__('os')", "1e9", "1 if 2 else 3", "10**12", "9999999*9999999", "("],
)
def test_calculator_rejects_anything_but_arithmetic(expression):
    with pytest.raises(ValueError, match=r"."):
        evaluate_integers(expression)


def test_grid_goal_is_reachable_and_a_wall_costs_a_move():
    environment = ENVIRONMENTS["grid_world"]()
    for seed in range(20):
        environment.reset(seed, {"size": 5, "walls": 0.5})
        assert environment._is_reachable()
    before = environment.here
    blocked = next(
        word
        for word, (down, right) in MOVES.items()
        if not environment._is_free((before[0] + down, before[1] + right))
    )
    assert environment.step(blocked).reward < 0 and environment.here == before


def test_a_picture_is_drawn_in_letters_and_its_question_has_one_answer():
    picture = draw_pixel_text(
        [Thing("triangle", "red", 0, 0), Thing("cross", "blue", 0, 1)], 1, 2
    ).splitlines()
    assert picture == [
        "............",
        "....R..B..B.",
        "...RR...BB..",
        "..RRR...BB..",
        ".RRRR..B..B.",
        "............",
    ]
    environment = ENVIRONMENTS["picture_question"]()
    for seed in range(40):
        environment.reset(seed, {"rows": 3, "columns": 3})
        assert environment.step(f" {environment.expected.upper()}.\n").reward == 1.0
        assert environment.step(f"1 2 3 {environment.expected}").reward == 0.0


def test_code_repair_rewards_the_repaired_function_and_reports_wrong_calls():
    environment = ENVIRONMENTS["code_repair"]()
    told = environment.reset(1, {})
    wanted = exercise(1)
    assert wanted.broken in told and "other calls go wrong" in told and wanted.right not in told
    again = environment.step(wanted.broken)
    assert told.endswith(again.observation) and (again.reward, again.done) == (0.0, False)
    assert environment.step(f"Here it is:\n```python\n{wanted.right}```") == type(again)(
        "all is right", 1.0, True
    )


def test_code_repair_gives_no_reward_for_the_shown_calls_alone():
    environment = ENVIRONMENTS["code_repair"]()
    environment.reset(1, {})
    known = {
        json.dumps(call.arguments): wanted
        for call, wanted in zip(environment.exercise.calls[:3], exercise(1).expected, strict=False)
    }
    cheat = (
        f"import json\ndef {environment.exercise.name}(*given):\n    return"
        f" {known!r}.get(json.dumps(given))"
    )
    step = environment.step(cheat)
    assert (step.observation, step.reward, step.done) == ("5 other calls go wrong", 0.0, False)


def test_every_kata_is_drawn_and_every_broken_version_differs():
    drawn = [exercise(seed) for seed in range(600)]
    assert {one.name for one in drawn} == {kata.name for kata in KATAS}
    assert all(one.broken != one.right for one in drawn)
    assert drawn[:50] == [exercise(seed) for seed in range(50)]


def test_code_repair_does_not_start_without_a_sandbox(monkeypatch):
    monkeypatch.setattr("apps.rewards.sandbox.bubblewrap.bubblewrap", missing)
    languages._find_tool.cache_clear()
    answer = Plays().answer(
        {"episode": 1, "name": "code_repair", "seed": 4, "options": {}, "actions": []}
    )
    assert answer["error"].startswith("NoSandbox")


def missing() -> str:
    raise bubblewrap.NoSandbox("none")


def test_another_process_continues_an_episode_from_its_actions():
    asked = {"episode": 1, "name": "guess_number", "seed": 4, "options": {}}
    one = Plays()
    other = Plays()
    for actions in ([], ["3"], ["3", "9"]):
        step = one.answer({**asked, "actions": actions})
    assert other.answer({**asked, "actions": ["3", "9"]}) == step
    assert one.answer({"episode": 1, "close": True}) is None and one.under_way == {}
