"""Train without the product: sample, score, update and load weights in turn, in one process.

    python bench/bare_loop.py [--plan examples/sort.yaml] [--steps 60] [--seeds 0,1,2]
        [--policy FOLDER] [--trainer-precision bfloat16] [--tasks 500] [--threads 1]

Without a policy it builds the plan's own. It uses the same policy, tasks, engine, scorer,
advantages, TRL updates and sealed weight folders as the whole stack, but no database, broker,
processes or streaming. It is the baseline for the cost of the stack, and shows that the recipe
learns with any seed.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import django
import torch
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault(
    "DJANGO_SETTINGS_MODULE", "rftweb.settings"
)  # engines read their number of threads from it
django.setup()  # a configuration is checked against models

from apps.pipelines.advantages import ADVANTAGES  # noqa: E402
from apps.policies.manifest import read_manifest  # noqa: E402
from apps.rewards import scorers  # noqa: E402
from apps.runs import config, parsing  # noqa: E402
from apps.tasksets import generators  # noqa: E402
from apps.tasksets.rows import TaskRow  # noqa: E402
from workers.engines import choose  # noqa: E402
from workers.engines.interface import Engine, Request, Sampling  # noqa: E402
from workers.policies import building, recipes  # noqa: E402
from workers.trainer.collate import Row  # noqa: E402
from workers.trainer.host import TrainerHost  # noqa: E402
from workers.trainer.plan import spec_from  # noqa: E402
from workers.trainer.spec import TrainerSpec  # noqa: E402

POLICIES = ROOT / "var" / "weights" / "policies"  # cache of built policies
TASKS = 500
STATIONS = ("sample", "score", "update", "sync")
FIRST_STEPS = 5
LAST_STEPS = 10  # same as in rftweb.management.run_report, which needs Django


@dataclass
class Loop:
    """One training run and its measurements so far."""

    plan: config.RunConfig
    host: TrainerHost
    engine: Engine
    tokenizer: AutoTokenizer
    weights: Path  # folder of the weight versions
    version: int = 0
    rewards: list[float] = field(default_factory=list)
    well_formed: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STATIONS, 0.0))
    tokens: int = 0

    def step(self, tasks: list[TaskRow], experts: Sequence[Row] = ()) -> None:
        """Make one update from one batch: `group_size` answers per task, and the expert rows."""
        repeated_tasks = [task for task in tasks for _ in range(self.plan.group_size)]
        prompts = [self._prompt_ids(task) for task in repeated_tasks]
        with self._clock("sample"):
            sampled = self._answers(prompts)
        with self._clock("score"):
            advantages = self._judge(repeated_tasks, [ids for ids, _ in sampled])
        with self._clock("update"):
            rows = [
                Row(tuple(prompt), tuple(ids), (1,) * len(ids), tuple(logprobs), advantage)
                for prompt, (ids, logprobs), advantage in zip(
                    prompts, sampled, advantages, strict=True
                )
                if advantage is not None
            ]
            if rows or experts:
                self.host.update([*rows, *experts])
        with self._clock("sync"):
            self._sync()
        self.tokens += sum(len(ids) for ids, _ in sampled)

    def _answers(self, prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        """Return token ids and logprobs of one completion per prompt, in order."""
        sampling = Sampling(
            self.plan.sampling.max_tokens,
            self.plan.sampling.temperature,
            (self.tokenizer.eos_token_id,),
        )
        self.engine.submit(
            [Request(str(number), tuple(prompt), sampling) for number, prompt in enumerate(prompts)]
        )
        sampled: list[tuple[list[int], list[float]]] = [([], []) for _ in prompts]
        running = len(prompts)
        while running:
            for delta in self.engine.drain(1.0):
                ids, logprobs = sampled[int(delta.request_id)]
                ids += delta.token_ids
                logprobs += delta.logprobs
                running -= delta.stop_reason is not None
        return sampled

    def _sync(self) -> None:
        """Seal the new weights, load them into the engine, and delete the previous version."""
        self.version += 1
        folder = self.weights / f"version-{self.version}"
        manifest = self.host.publish(folder, self.version, self.version - 1)
        self.engine.load(folder, self.version, manifest.probe)
        shutil.rmtree(self.weights / f"version-{self.version - 1}", ignore_errors=True)

    def _judge(
        self, repeated_tasks: list[TaskRow], completions: list[list[int]]
    ) -> list[float | None]:
        """Return the advantages; None for answers that the update leaves out.

        These are answers of dropped groups, and those that RAFT does not imitate.
        """
        scorer = scorers.find_scorer(self.plan.rewards[0].scorer)
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
        pairs = zip(repeated_tasks, texts, strict=True)
        verdicts = [scorer.of(text, task) for task, text in pairs]
        values = [verdict.value for verdict in verdicts]
        self.rewards.append(sum(values) / len(values))
        self.well_formed.append(
            sum(verdict.details.get("well_formed", True) for verdict in verdicts) / len(verdicts)
        )
        size = self.plan.group_size
        groups = [values[at : at + size] for at in range(0, len(values), size)]
        section = self.plan.algorithm.advantage
        scored = ADVANTAGES[section.name](groups, **section.model_dump(exclude={"name"}))
        advantages = [advantage for group in scored for advantage in group or [None] * size]
        return (
            [advantage or None for advantage in advantages]
            if section.name == "best"
            else advantages
        )

    def _prompt_ids(self, task: TaskRow) -> list[int]:
        return self.tokenizer.apply_chat_template(
            task.prompt, add_generation_prompt=True, return_dict=False
        )

    def _clock(self, station: str) -> "Clock":
        return Clock(self.seconds, station)


@dataclass
class Clock:
    """A context manager that adds its wall time to a stage's sum."""

    seconds: dict[str, float]
    station: str
    began: float = 0.0

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.station] += time.perf_counter() - self.began


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    plan = parsing.from_yaml(options.plan.read_text())
    if options.trainer_precision:
        precision = plan.precision.model_copy(update={"trainer": options.trainer_precision})
        plan = plan.model_copy(update={"precision": precision})
    folder = (
        options.policy
        or building.ensure(
            recipes.find_recipe(plan.policy), POLICIES, 0, lambda line: print(line, file=sys.stderr)
        )[0]
    )
    results = [
        train_once(plan, folder, options.steps, seed, options.tasks) for seed in options.seeds
    ]
    columns = [name for name in results[0] if name != "rewards"]
    print("  ".join(columns))
    for row in results:
        print("  ".join(f"{row[name]:>{len(name)}}" for name in columns))
    print(json.dumps({"run": plan.policy, "steps": options.steps, "results": results}))


def train_once(
    plan: config.RunConfig, folder: Path, steps: int, seed: int, tasks: int
) -> dict[str, Any]:
    """Train once from the warm policy; return the figures."""
    with tempfile.TemporaryDirectory() as output:
        host = TrainerHost(trainer_spec(plan, folder, Path(output), steps, seed))
        host.start()
        engine, _ = choose.build_engine(
            plan.engine, temperature=plan.sampling.temperature, seed=seed
        )
        engine.start(folder, 0, read_manifest(folder).probe)
        loop = Loop(plan, host, engine, AutoTokenizer.from_pretrained(folder), Path(output))
        batches = task_batches(plan, seed, tasks)
        began = time.perf_counter()
        used = time.process_time()
        for _ in range(steps):
            loop.step(next(batches))
        total = time.perf_counter() - began
        used = time.process_time() - used
        engine.stop()
        host.stop()
    return loop_figures(loop, seed, total, used)


def trainer_spec(
    plan: config.RunConfig, folder: Path, output: Path, steps: int, seed: int
) -> TrainerSpec:
    return replace(spec_from(plan, folder, output, steps), seed=seed)


def task_batches(plan: config.RunConfig, seed: int, size: int = TASKS) -> Iterator[list[TaskRow]]:
    """Yield endless batches of `groups_per_step` different tasks, of `size` in all."""
    tasks = list(generators.find_generator(plan.taskset)(size, 0))
    order = random.Random(seed)
    while True:
        yield order.sample(tasks, plan.groups_per_step)


def loop_figures(loop: Loop, seed: int, total: float, used: float) -> dict[str, Any]:
    """Return the figures of a run.

    These are the mean reward of each step, means of the first and last steps, the lowest
    well-formed share of any five steps, the seconds by stage, and the processor seconds of the
    process.
    """
    width = min(FIRST_STEPS, len(loop.well_formed))
    windows = [loop.well_formed[at : at + width] for at in range(len(loop.well_formed) - width + 1)]
    first = loop.rewards[:FIRST_STEPS]
    last = loop.rewards[-LAST_STEPS:]
    return {
        "seed": seed,
        "rewards": [round(reward, 3) for reward in loop.rewards],
        "reward_first": round(sum(first) / len(first), 4),
        "reward_last": round(sum(last) / len(last), 4),
        "well_formed_least": round(min(sum(window) / len(window) for window in windows), 4),
        **{f"{station}_s": round(seconds, 2) for station, seconds in loop.seconds.items()},
        "total_s": round(total, 2),
        "processor_s": round(used, 2),
        "tokens_per_s": round(loop.tokens / loop.seconds["sample"]),
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--plan", type=Path, default=ROOT / "examples" / "sort.yaml", help="a run's configuration"
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[0]
    )
    parser.add_argument("--policy", type=Path, help="sealed folder of version 0")
    parser.add_argument(
        "--trainer-precision", choices=("float32", "bfloat16"), help="default: the plan's"
    )
    parser.add_argument(
        "--tasks", type=int, default=TASKS, help="size of the taskset (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
