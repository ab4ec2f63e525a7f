"""Estimate a run's memory and time from its sizes and from earlier runs with its policy."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from apps.policies.models import Policy
from apps.policies.shape import shape_in
from apps.runs.config import RunConfig
from apps.runs.memory import (
    FLOAT32,
    Memory,
    Part,
    Sizes,
    cache_needed,
    estimate_memory,
    longest_row,
    sequences,
)
from apps.runs.models import Metric, Run, Worker
from apps.runs.vllm import Vllm

EARLIER_RUNS = 5
NEWEST_UPDATES = 50
# Seconds of a step by the clock, without those in which people were waited for; and of the
# trainer's own work alone.
BY_THE_CLOCK = {"step_seconds": 1, "starved_people": -1}
AT_WORK = {"step_seconds": 1, "wait_seconds": -1}
SAMPLED = {"explore_tokens_per_s": 1}


@dataclass(frozen=True)
class Estimate:
    """Estimated bytes and seconds.

    `rows`: of a step; `tokens`: most in one. `like`: the run whose pace was taken, None where
    none was.

    `needed_cache`: keys and values of a step's rollouts at once; a vLLM on a GPU takes all that
    its share leaves, which is among the parts of `memory` then. Of an evaluation, which makes no
    step, rows and tokens are all that it asks, and `speed` is the tokens/s of `like`.
    """

    parameters: int
    rows: int
    tokens: int
    memory: Memory
    on_gpu: bool
    needed_cache: int
    like: Run | None
    like_s: float | None
    step_s: float | None
    steps: int
    samples: bool = True  # otherwise it learns from lessons, or replays
    speed: float | None = None
    processes: int = 1  # of the trainer; what it takes is of each of them
    room: int | None = None  # bytes of the newest trainer's GPU or machine, if known

    @property
    def is_evaluation(self) -> bool:
        return self.steps == 0

    @property
    def trainer(self) -> int:
        return self.memory.held_by("trainer")

    @property
    def explorer(self) -> int:
        return self.memory.held_by("engine")

    @property
    def reference(self) -> int:
        return self.memory.named("reference", "trainer")

    @property
    def largest(self) -> int:
        """Return the bytes of the phase that needs more."""
        return max(self.memory.sampling, self.memory.updating)

    @property
    def is_too_large(self) -> bool:
        """Tell whether the run needs more memory than the machine of the newest trainer has."""
        return self.room is not None and self.largest > self.room

    @property
    def total_s(self) -> float | None:
        if self.is_evaluation:
            return self.tokens / self.speed if self.speed else None
        return None if self.step_s is None else self.step_s * self.steps


def estimate_run(plan: RunConfig, policy: Policy) -> Estimate:
    """Return the estimate of a run; takes three queries and reads one small file."""
    if plan.evaluation:
        return _of_evaluation(plan, policy)
    sizes = Sizes(policy.parameters, shape_in(Path(policy.folder)), policy.context_tokens)
    on_gpu, room = _device_for(plan)
    rows = sequences(plan)
    model_run, like_s, step_s = _pace(plan, policy)
    return Estimate(
        parameters=policy.parameters,
        rows=rows,
        tokens=rows * longest_row(plan, policy.context_tokens),
        memory=estimate_memory(plan, sizes, on_gpu),
        on_gpu=on_gpu,
        needed_cache=cache_needed(plan, sizes, on_gpu) if plan.samples else 0,
        like=model_run,
        like_s=like_s,
        step_s=step_s,
        steps=plan.steps,
        samples=plan.samples,
        processes=plan.trainer.processes,
        room=room,
    )


def _device_for(plan: RunConfig) -> tuple[bool, int | None]:
    """Return whether the run uses a GPU, and the bytes of that GPU or machine if they are known.

    A run that names vLLM is meant for a GPU; others use what the newest trainer has.
    """
    device, metrics = _newest_trainer()
    on_gpu = plan.vllm != Vllm() or device not in ("", "cpu")
    return on_gpu, metrics.get("gpu_total_bytes" if on_gpu else "machine_bytes")


def trains_on_cpu() -> bool:
    """Tell whether the newest trainer has no GPU. One query."""
    return _newest_trainer()[0] == "cpu"


def _newest_trainer() -> tuple[str, dict]:
    """Return the device of the newest trainer ("": no trainer yet) and what it reported."""
    trainers = Worker.objects.filter(role=Worker.Role.TRAINER).order_by("-pk")
    return trainers.values_list("device", "metrics").first() or ("", {})


def _of_evaluation(plan: RunConfig, policy: Policy) -> Estimate:
    """Return the estimate for an evaluation.

    It holds the weights only; answers are assumed to have their maximum length, at the speed of the
    newest run that sampled.
    """
    tasks = (
        policy.project.tasksets.filter(slug=plan.taskset).values_list("size", flat=True).first()
        or 0
    )
    task_limit = plan.evaluation.tasks if plan.evaluation else None
    answers = min(tasks, task_limit or tasks) * plan.group_size
    runs = _earlier_runs(policy)
    speeds = _medians(runs, SAMPLED)
    model_run = next((run for run in runs if speeds.get(run.pk)), None)
    weights = Part("weights", "engine", FLOAT32 * policy.parameters)
    return Estimate(
        parameters=policy.parameters,
        rows=answers,
        tokens=answers * plan.sampling.max_tokens,
        memory=Memory((weights,), is_whole=False),
        on_gpu=False,
        needed_cache=0,
        like=model_run,
        like_s=None,
        step_s=None,
        steps=0,
        speed=speeds[model_run.pk] if model_run else None,
    )


def _pace(plan: RunConfig, policy: Policy) -> tuple[Run | None, float | None, float | None]:
    """Return the run whose pace is used, its seconds per step, and those scaled to this plan.

    For a plan that samples it is the newest such run with this policy, by wall time: sampling is
    part of it, and scales with rows and tokens. For other plans it is any run: the trainer's own
    time, in proportion to sequences, as lessons are about as long as such a run's rows.
    """
    runs = [run for run in _earlier_runs(policy) if run.settings.samples or not plan.samples]
    seconds = _medians(runs, BY_THE_CLOCK if plan.samples else AT_WORK)
    for run in runs:
        if run.pk in seconds:
            earlier_plan = run.settings
            lengths = (
                (plan.sampling.max_tokens, earlier_plan.sampling.max_tokens)
                if plan.samples
                else (1, 1)
            )
            ratio = (sequences(plan) * lengths[0]) / max(1, sequences(earlier_plan) * lengths[1])
            return run, seconds[run.pk], seconds[run.pk] * ratio
    return None, None, None


def _earlier_runs(policy: Policy) -> list[Run]:
    return list(Run.objects.filter(policy=policy, step__gt=0)[:EARLIER_RUNS])


def _medians(runs: Sequence[Run], signs: Mapping[str, int]) -> dict[int, float]:
    """Return by run the median, over its newest steps, of the signed sum of these metrics.

    One query.
    """
    newest = Metric.objects.of_last_steps(runs, NEWEST_UPDATES).filter(name__in=signs)
    rows = newest.values_list("run", "step", "name", "value")
    sums: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for run, step, name, value in rows:
        sums[run][step] += signs[name] * value
    medians = {run: median(by_step.values()) for run, by_step in sums.items()}
    return {run: max(0.0, value) for run, value in medians.items()}
