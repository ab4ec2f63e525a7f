"""The test kit accepts valid plugins and reports what is wrong with others."""

import runpy
from pathlib import Path

import pytest

from apps.plugins.registry import REGISTRY
from rftweb.testing import (
    Example,
    PluginFailed,
    check_generator,
    check_operator,
    check_scorer,
    sample,
)
from tests.plugins.sources import BROKEN, GENERATOR, OPERATOR, SCORER
from tests.plugins.test_guarded import judging

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a plugin and returns its file."""

    def write(source: str) -> Path:
        path = tmp_path / "odd.py"
        path.write_text(source)
        return path

    return write


def test_kit_compares_scores_with_examples_and_keeps_the_plugins_folder(written):
    before = REGISTRY.folder
    check_scorer(written(SCORER), [Example("please", 1.0), Example("no", 0.0)])
    assert REGISTRY.folder == before


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (BROKEN, "is refused: ModuleNotFoundError"),
        (judging("return Verdict(None, 'no')"), "gets None instead of 1.0"),
        (judging("return Verdict(5.0, 'good')"), "outside its range"),
        (judging("return Verdict(1.0, '')"), "without a reason"),
        (judging("return Verdict(float(len(rollout.text) // 1000 > 0), 1 / 0)"), "raises Zero"),
        (judging("return Verdict(1.0, str({'a', 'b', 'c', 'd', 'e', 'f'}))"), "deterministic"),
        (judging("return Verdict(1.0, 'good', {'at': object()})"), "cannot be stored"),
        (judging("while True: pass") + "\nSECONDS = 0.1\n", "took longer than 0.1 s"),
    ],
)
def test_scorer_that_breaks_its_contract_is_reported(written, source, why):
    with pytest.raises(PluginFailed, match=why):
        check_scorer(written(source), [Example("please", 1.0)])


def test_group_scorer_is_checked_with_its_groups(written):
    source = '''"""Rewards the longest reply of a group."""

from apps.rewards.scorers import Verdict


def score_group(rollouts, task, options):
    most = max(len(one.text) for one in rollouts)
    return [Verdict(float(len(one.text) == most), "compared lengths") for one in rollouts]
'''
    check_scorer(written(source), [Example(["a", "bbb"], [0.0, 1.0])])
    with pytest.raises(PluginFailed, match=r"gets 0\.0, 1\.0 instead of 1\.0, 1\.0"):
        check_scorer(written(source), [Example(["a", "bbb"], [1.0, 1.0])])


def test_kit_compares_the_rollouts_that_an_operator_keeps(written):
    samples = [sample(1, "fine"), sample(2, "much too long")]
    outcome = check_operator(written(OPERATOR), samples, kept=[1])
    assert [cut.reason for cut in outcome.passes[0].cuts] == ["long"]
    with pytest.raises(PluginFailed, match=r"keeps rollouts \[1\] instead of \[1, 2\]"):
        check_operator(written(OPERATOR), samples, kept=[1, 2])


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("samples[0].meta['seen'] = 1", "changes its input"),
        ("options = __import__('random').random()", "applied again"),
        ("samples.pop()", "dropped rollout 2 without a reason"),
    ],
)
def test_operator_that_breaks_its_contract_is_reported(written, does, why):
    reason = 'f"long {options}" if len'
    source = OPERATOR.replace("    return sift", f"    {does}\n    return sift")
    with pytest.raises(PluginFailed, match=why):
        check_operator(
            written(source.replace('"long" if len', reason)),
            [sample(1, "fine", meta={}), sample(2, "much too long")],
        )


def test_generator_must_depend_on_its_seed(written):
    assert len(check_generator(written(GENERATOR), size=3)) == 3
    with pytest.raises(PluginFailed, match="the same tasks of another seed"):
        check_generator(written(GENERATOR.replace("25, size, seed", "25, size, 0")))


@pytest.mark.parametrize("name", ["keywords", "without_links", "number_scale"])
def test_example_plugins_pass_their_own_tests(name):
    found = runpy.run_path(str(ROOT / "examples" / "plugins" / "tests" / f"test_{name}.py"))
    tests = [test for each, test in found.items() if each.startswith("test_")]
    assert tests
    for test in tests:
        test()
