"""How much memory and time a run will take, roughly: from its sizes, and from the updates of earlier runs with its policy."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.runs.models import Metric, Run

BYTES = 4  # of a float32: what the trainer holds weights, gradients and both of Adam's moments in
ADAM = 4  # numbers for each trained parameter: weight, gradient, two moments
ACTIVATIONS = 16  # numbers that a layer keeps for each token and unit of width until its gradient is there, roughly
EARLIER_RUNS, NEWEST_UPDATES = 5, 50
# Seconds of an update by the clock, without those in which people were waited for; and of the trainer's own work alone.
BY_THE_CLOCK, AT_WORK = {"step_seconds": 1, "starved_people": -1}, {"step_seconds": 1, "wait_seconds": -1}
SAMPLED = {"explore_tokens_per_s": 1}


@dataclass(frozen=True)
class Estimate:
    """Bytes and seconds. `rows`: of an update; `tokens`: most in one. `like`: the run whose pace was taken, None where none was.

    Of an evaluation, which makes no update, rows and tokens are all that it asks, and `speed` is the tokens/s of `like`.
    """

    parameters: int
    rows: int
    tokens: int
    weights: int
    optimizer: int
    reference: int
    activations: int | None
    cache: int | None
    like: Run | None
    like_s: float | None
    step_s: float | None
    steps: int
    samples: bool = True  # else it learns from lessons, or replays
    speed: float | None = None

    @property
    def is_evaluation(self) -> bool:
        return self.steps == 0

    @property
    def trainer(self) -> int:
        return self.weights + self.optimizer + self.reference + (self.activations or 0)

    @property
    def explorer(self) -> int:
        return self.weights + (self.cache or 0)

    @property
    def total_s(self) -> float | None:
        if self.is_evaluation:
            return self.tokens / self.speed if self.speed else None
        return None if self.step_s is None else self.step_s * self.steps


@dataclass(frozen=True)
class Shape:
    """What a policy's config.json says of its size."""

    layers: int
    width: int
    vocabulary: int
    cached: int  # numbers that a token leaves in the cache, in each layer


def estimate_of(plan: RunConfig, policy: Policy) -> Estimate:
    """Two queries, and one small file. A prompt is taken to be as long as the longest answer, where the context has room."""
    if plan.evaluation:
        return _of_evaluation(plan, policy)
    shape, rows = _shape_of(policy), _sequences(plan)
    per_row = min(policy.context_tokens, 2 * plan.sampling.max_tokens) if plan.samples else policy.context_tokens
    at_once = min(rows, plan.optimizer.micro_batch_rows or rows)
    trained = policy.parameters if plan.lora is None else _adapters(plan, shape, policy)
    like, like_s, step_s = _pace(plan, policy)
    return Estimate(
        parameters=policy.parameters, rows=rows, tokens=rows * per_row, weights=BYTES * policy.parameters,
        optimizer=BYTES * (ADAM - 1) * trained + (BYTES * trained if plan.lora else 0),
        reference=BYTES * policy.parameters if plan.algorithm.needs_reference and plan.lora is None else 0,
        activations=_activations(shape, at_once * per_row), cache=_cache(shape, plan, per_row),
        like=like, like_s=like_s, step_s=step_s, steps=plan.steps, samples=plan.samples,
    )  # fmt: skip


def _of_evaluation(plan: RunConfig, policy: Policy) -> Estimate:
    """Weights alone are held, and answers taken to be as long as they may be, at the speed of the newest run that sampled."""
    tasks = policy.project.tasksets.filter(slug=plan.taskset).values_list("size", flat=True).first() or 0
    answers = min(tasks, plan.evaluation.tasks or tasks) * plan.group_size
    runs = _earlier(policy)
    speeds = _medians(runs, SAMPLED)
    like = next((run for run in runs if speeds.get(run.pk)), None)
    return Estimate(
        parameters=policy.parameters, rows=answers, tokens=answers * plan.sampling.max_tokens, weights=BYTES * policy.parameters,
        optimizer=0, reference=0, activations=None, cache=None, like=like, like_s=None, step_s=None, steps=0,
        speed=speeds[like.pk] if like else None,
    )  # fmt: skip


def _sequences(plan: RunConfig) -> int:
    """Of one update; a lesson of preferences is a pair of them."""
    return plan.rows_per_step * (2 if plan.snapshot and plan.snapshot.source == "preferences" else 1)


def _activations(shape: Shape | None, tokens: int) -> int | None:
    """What a forward pass keeps for its backward one: the layers', and the logits with their gradient."""
    if shape is None:
        return None
    return BYTES * tokens * (ACTIVATIONS * shape.layers * shape.width + 2 * shape.vocabulary)


def _cache(shape: Shape | None, plan: RunConfig, per_row: int) -> int | None:
    """Keys and values of one update's rollouts at once, in two bytes each, as engines hold them on a GPU."""
    return None if shape is None or not plan.samples else 2 * plan.usual_rows_per_step * per_row * shape.layers * shape.cached


def _adapters(plan: RunConfig, shape: Shape | None, policy: Policy) -> int:
    """Parameters of the adapters: two thin matrices for each layer that has one."""
    if shape is None:
        return policy.parameters // 100
    return 2 * plan.lora.rank * shape.width * shape.layers * len(plan.lora.target_modules)


def _shape_of(policy: Policy) -> Shape | None:
    """None where this machine does not hold the policy's folder, or it says nothing of its size."""
    try:
        said = json.loads((Path(policy.folder) / "config.json").read_text(encoding="utf-8"))
        said = {**said, **said.get("text_config", {})}
        heads = int(said["num_attention_heads"])
        size = int(said.get("head_dim") or said["hidden_size"] // heads)
        cached = 2 * int(said.get("num_key_value_heads") or heads) * size
        return Shape(int(said["num_hidden_layers"]), int(said["hidden_size"]), int(said["vocab_size"]), cached)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, AttributeError):
        return None


def _pace(plan: RunConfig, policy: Policy) -> tuple[Run | None, float | None, float | None]:
    """The newest run with this policy whose updates tell of this plan's, its seconds an update, and those scaled to this plan.

    Of a plan that samples that is one that sampled too, by the clock: sampling is part of it, and goes with rows and tokens. Of one
    that does not, any: the trainer's own time, in proportion to sequences, as its lessons are as long as such a run's rows.
    """
    runs = [run for run in _earlier(policy) if run.settings.samples or not plan.samples]
    seconds = _medians(runs, BY_THE_CLOCK if plan.samples else AT_WORK)
    for run in runs:
        if run.pk in seconds:
            there = run.settings
            lengths = (plan.sampling.max_tokens, there.sampling.max_tokens) if plan.samples else (1, 1)
            ratio = (_sequences(plan) * lengths[0]) / max(1, _sequences(there) * lengths[1])
            return run, seconds[run.pk], seconds[run.pk] * ratio
    return None, None, None


def _earlier(policy: Policy) -> list[Run]:
    return list(Run.objects.filter(policy=policy, step__gt=0)[:EARLIER_RUNS])


def _medians(runs: Sequence[Run], signs: Mapping[str, int]) -> dict[int, float]:
    """By run: the median over its newest updates of these metrics' sum, each with its sign. One query."""
    found: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    rows = Metric.objects.of_last_steps(runs, NEWEST_UPDATES).filter(name__in=signs)
    for run, step, name, value in rows.values_list("run", "step", "name", "value"):
        found[run][step] += signs[name] * value
    return {run: max(0.0, median(steps.values())) for run, steps in found.items()}
