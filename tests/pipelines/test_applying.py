"""A pipeline passes samples from operator to operator and checks the contract of each."""

from types import ModuleType

import pytest

from apps.pipelines import applying, operators
from apps.pipelines.applying import OperatorFailed, apply
from apps.pipelines.operators.contract import Sample, Sifted
from apps.runs.pipeline import OperatorChoice


def samples(*rewards: float) -> list[Sample]:
    return [Sample(n, 1, "text", reward, tokens=n) for n, reward in enumerate(rewards)]


def pipeline(*steps: tuple[str, dict]) -> list[OperatorChoice]:
    return [OperatorChoice(operator=name, options=options) for name, options in steps]


def test_each_operator_gets_what_the_previous_one_kept():
    steps = pipeline(
        ("length", {"min_tokens": 1}), ("truncated", {}), ("arithmetic", {"operand": "tokens"})
    )
    assert [one.place for one in apply(steps, "experiences", samples(1, 2, 3)).passes] == [0]
    outcome = apply(steps, "groups", samples(1, 2, 3))
    assert [(one.place, one.operator, len(one.given), len(one.kept)) for one in outcome.passes] == [
        (1, "truncated", 3, 3),
        (2, "arithmetic", 3, 3),
    ]
    assert [one.reward for one in outcome.samples] == [1, 3, 5]


def test_configured_stage_of_an_operator_is_used():
    [choice] = pipeline(("length", {"min_tokens": 1}))
    assert (
        len(apply([choice.model_copy(update={"stage": "groups"})], "groups", samples(1, 2)).samples)
        == 1
    )


@pytest.fixture
def broken(monkeypatch):
    """Return a function that replaces every operator with `broken`, which calls its argument."""

    def make(act):
        module = ModuleType("broken", "Breaks.")
        module.FAMILY = "clean"
        module.apply = act
        monkeypatch.setattr(applying, "find_operator", lambda name: operators.read_operator(module))

    return make


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda samples, options: 1 / 0, "broken: ZeroDivisionError"),
        (lambda samples, options: Sifted(samples[1:]), "dropped rollout 0 without a reason"),
        (lambda samples, options: Sifted([*samples, *samples]), "more than once"),
        (lambda samples, options: Sifted([Sample(99, 1, "", 1.0)]), "unknown rollouts: \\[99\\]"),
        (
            lambda samples, options: Sifted([Sample(0, 1, "", float("nan"))], {1: "x"}),
            "not a finite number",
        ),
    ],
)
def test_operator_that_fails_or_breaks_its_contract_is_reported_by_name(broken, act, words):
    broken(act)
    with pytest.raises(OperatorFailed, match=words):
        apply(pipeline(("broken", {})), "groups", samples(1, 2))


def test_missing_operator_is_reported_by_name():
    with pytest.raises(OperatorFailed, match="no operator 'gone'"):
        apply(pipeline(("gone", {})), "groups", samples(1))
