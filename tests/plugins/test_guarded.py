"""Plugin code that fails while it runs loses only its own value, group or check."""

import pytest
from pydantic import ValidationError

from apps.pipelines import operators
from apps.pipelines.applying import OperatorFailed, apply
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.operators import Sample
from apps.pipelines.plugin_advantages import advantages_by_plugin
from apps.plugins.guarded_calls import PluginCallFailed
from apps.rewards import scorers
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scoring import Question, require_known_scorers
from apps.runs.algorithms.advantages import PluginAdvantage
from apps.runs.config import ConfigError
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.generators import find_generator
from apps.tasksets.sources.plugins import SourceFailed, lines_from_plugin
from tests.plugins.sources import BROKEN, OPERATOR, SCORER
from workers.grading import Grader


def judging(what: str) -> str:
    """Return a scorer that does this, with the usual verdict in place of `verdict`."""
    right = 'Verdict(float(options.word in rollout.text), "looked for the word")'
    return SCORER.replace(f"return {right}", what.replace("verdict", right))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("raise KeyError('oh')", "KeyError: 'oh'"),
        ("return 1.0", "gave float, not a Verdict"),
        ("return None", "gave NoneType, not a Verdict"),
        ("return Verdict('1', 'good')", "the value is str"),
        ("return Verdict(True, 'good')", "the value is bool"),
        ("return Verdict(1.0, 7)", "the reason is int"),
        ("return Verdict(None, '')", "no value and no reason"),
        ("return Verdict(1.0, 'good', {'said': {1, 2}})", "cannot be stored"),
        ("return Verdict(1.0, 'good', {'said': float('nan')})", "cannot be stored"),
        (r"return Verdict(1.0, 'good', {'said': '\0'})", "cannot be stored"),
        ("return Verdict(2.0, 'good')", "outside its range"),
    ],
)
def test_value_that_cannot_be_stored_becomes_no_value_with_the_reason(install, what, why):
    install(odd=judging(what))
    [verdict] = scorers.find_scorer("odd").judge([RolloutView("please")], TaskView())
    assert verdict.value is None and why in verdict.reason


def test_plugin_scorer_runs_in_child_processes_with_a_time_limit(install):
    install(polite=SCORER, endless=judging("while True: pass") + "\nSECONDS = 0.2\n")
    grader = Grader(children=1)
    try:
        asked = [
            Question(1, name, (1,), (RolloutView("yes please"),), TaskView())
            for name in ("polite", "endless", "polite")
        ]
        first, second, third = (one.verdicts[0] for one in grader.grade(asked))
    finally:
        grader.stop()
    assert first.value == third.value == 1.0
    assert second.value is None and "longer than 0.2 s" in second.reason


@pytest.mark.django_db
def test_questions_sent_with_one_that_kills_the_child_are_still_judged(install):
    ends = "if 'die' in rollout.text:\n        __import__('os')._exit(3)\n    return verdict"
    install(mortal=judging(ends))
    grader = Grader(children=1)
    grader.pace["mortal"] = 1e-6  # so that the questions are sent together
    try:
        texts = ("yes please", "die", "please")
        asked = [Question(1, "mortal", (1,), (RolloutView(text),), TaskView()) for text in texts]
        assert [len(part) for part in grader._parts(asked)] == [3]
        said = [one.verdicts[0] for one in grader.grade(asked)]
    finally:
        grader.stop()
    assert [verdict.value for verdict in said] == [1.0, None, 1.0]
    assert "exited with 3" in said[1].reason


def test_run_is_refused_if_its_plugin_or_plugin_options_are_invalid(install, plan, project):
    install(polite=SCORER, broken=BROKEN)
    require_known_scorers(plan(rewards=[{"scorer": "polite", "options": {"word": "x"}}]), project)
    for choice, field, why in (
        ({"scorer": "polite", "options": {"words": "x"}}, "rewards.0.options.words", "Extra"),
        ({"scorer": "broken"}, "rewards.0.scorer", "is refused: ModuleNotFoundError"),
    ):
        with pytest.raises(ConfigError) as refusal:
            require_known_scorers(plan(rewards=[choice]), project)
        assert why in refusal.value.problems[field]


def test_validator_that_fails_refuses_the_options(install):
    broken = '    @field_validator("word")\n    def check(cls, word):\n        return {}[word]\n'
    source = SCORER.replace('description="The word.")\n', f'description="The word.")\n{broken}')
    install(odd=source.replace("import Field", "import Field, field_validator"))
    with pytest.raises(ValidationError, match="could not be checked: KeyError"):
        scorers.find_scorer("odd").read_options({"word": "x"})


@pytest.mark.django_db
def test_pipeline_is_refused_if_its_plugin_fails_to_check_or_load(install, plan, project):
    check = "\ndef why_not(plan):\n    raise RuntimeError('oh')\n"
    install(short=OPERATOR, unsure=OPERATOR + check, broken=OPERATOR + "\n1 / 0\n")
    found = [
        find_pipeline_problems(plan(pipeline=[{"operator": name}]), project)
        for name in ("short", "unsure", "broken")
    ]
    assert found[0] == {}
    assert "unsure cannot check the run: RuntimeError" in found[1]["pipeline.0.operator"]
    assert "is refused: ZeroDivisionError" in found[2]["pipeline.0.operator"]


def applied(name: str, *texts: str) -> list[int]:
    samples = [Sample(n, 1, text, 1.0) for n, text in enumerate(texts)]
    return [
        one.rollout for one in apply([OperatorChoice(operator=name)], "groups", samples).samples
    ]


def test_plugin_operator_filters_rollouts(install):
    install(short=OPERATOR)
    assert operators.find_operator("short").is_plugin and applied(
        "short", "fine", "much too long"
    ) == [0]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("[]", "returned list, not Sifted"),
        ("Sifted([1])", "kept an object that is not a Sample"),
        ("Sifted([], {sample.rollout: 7 for sample in samples})", "a reason is not text"),
        ("Sifted(samples, {}, [Made(samples[0], 'more')])", "made rows"),
        ("Sifted([replace(samples[0], reward='1')])", "a reward is not a number"),
    ],
)
def test_operator_that_breaks_its_contract_fails_with_its_name(install, result, why):
    head = (
        '"""Breaks."""\nfrom dataclasses import replace\n'
        "from apps.pipelines.operators.contract import Made, Sifted\nFAMILY = 'clean'\n"
    )
    install(odd=f"{head}def apply(samples, options):\n    return {result}\n")
    with pytest.raises(OperatorFailed, match=f"odd: .*{why}"):
        applied("odd", "fine")


EXIT = "import sys\n\n\ndef {0}:\n    sys.exit('no')\n"


def test_exit_of_a_plugin_is_an_error_like_any_other(install):
    install(
        leaves=judging("raise SystemExit"),
        quits=OPERATOR.replace("return sift", "raise SystemExit\n    return sift"),
        ends='"""Ends."""\n' + EXIT.format("advantages(rewards, options)"),
        stops='"""Stops."""\n' + EXIT.format("rows(place, options)"),
        makes='"""Makes."""\n' + EXIT.format("generate(size, seed)"),
    )
    [verdict] = scorers.find_scorer("leaves").judge([RolloutView("please")], TaskView())
    assert verdict.value is None and "SystemExit" in verdict.reason
    with pytest.raises(OperatorFailed, match=r"quits: .*SystemExit"):
        applied("quits", "fine")
    with pytest.raises(OperatorFailed, match=r"ends: .*SystemExit: no"):
        advantages_by_plugin(PluginAdvantage(name="plugin", plugin="ends"), [0.0, 1.0])
    with pytest.raises(SourceFailed, match=r"stops, row 0: .*SystemExit: no"):
        list(lines_from_plugin("stops", "here", {}))
    with pytest.raises(PluginCallFailed, match="SystemExit: no"):
        list(find_generator("makes")(3, 1))


def test_error_without_a_text_is_named_by_its_type(install):
    error = "class Odd(Exception):\n        def __str__(self):\n            return 7\n    raise Odd"
    install(odd=OPERATOR.replace("return sift", f"{error}\n    return sift"))
    with pytest.raises(OperatorFailed, match="raised Odd"):
        applied("odd", "fine")
