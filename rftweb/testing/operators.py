"""Check of an operator: applied as the refiner applies it, and against its contract."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from apps.pipelines.applying import OperatorFailed, Outcome, apply
from apps.pipelines.operators import Sample, find_operator
from apps.runs.pipeline import OperatorChoice, Stage
from rftweb.testing.failures import PluginFailed, find_plugin, open_plugin, require_none


def sample(rollout: int, text: str = "", reward: float = 0.0, **fields: Any) -> Sample:
    """Return a sample of group 1; `fields`: further fields of Sample."""
    return Sample(**{"rollout": rollout, "group": 1, "text": text, "reward": reward, **fields})


def check_operator(
    plugin: Path | str,
    samples: Sequence[Sample],
    kept: Collection[int] | None = None,
    options: Mapping[str, Any] | None = None,
    stage: Stage | None = None,
) -> Outcome:
    """Return the outcome of the operator on these samples at a stage, its own first by default.

    `kept`: the rollouts that must be left. Raises PluginFailed unless the operator is usable, keeps
    its contract, does the same again, and leaves its input as it is.
    """
    with open_plugin(plugin) as name:
        operator = find_plugin(find_operator, name)
        try:
            operator.read_options(options or {})
        except ValidationError as bad:
            raise PluginFailed(name, [f"options are refused: {bad}"]) from None
        at = stage or operator.stages[0]
        if at not in operator.stages:
            raise PluginFailed(name, [f"works on {', '.join(operator.stages)}, not on {at}"])
        choice = OperatorChoice(operator=name, options=dict(options or {}), stage=at)
        before = repr(samples)
        try:
            outcome = apply([choice], at, samples)
            again = apply([choice], at, samples)
        except OperatorFailed as failure:
            raise PluginFailed(name, [str(failure)]) from None
    problems = []
    if repr(samples) != before:
        problems.append("changes its input: give back changed copies (dataclasses.replace)")
    elif repr(outcome) != repr(again):
        problems.append("does something else when it is applied again: operators are pure")
    remaining = [kept_sample.rollout for kept_sample in outcome.samples]
    if kept is not None and set(remaining) != set(kept):
        problems.append(f"keeps rollouts {remaining} instead of {sorted(kept)}")
    require_none(name, problems)
    return outcome
