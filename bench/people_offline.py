"""A rater model without the product: few decisions of simulated people, in one process.

    python bench/people_offline.py [--budgets 50,150,400,15360] [--seeds 0,1] [--steps 120]
    [--learning-rate 6e-4] [--rewrites 0]

It is `human_loop` without database, web and workers, on top of `bare_loop`: for trying recipes
quickly. The truth (the strict rule of the tone task) is read for the table and by the simulated
raters, never by the learner. One line of JSON for each run.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import django
import torch
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
django.setup()  # a configuration is checked against models

from apps.feedback.rater_model.learner import Learner, ValuedReply  # noqa: E402
from apps.feedback.rater_model.reading import (  # noqa: E402
    BaseNll,
    ReplyFeatures,
    Topics,
    extract_features,
)
from apps.feedback.rater_model.schedule import schedule_decisions  # noqa: E402
from apps.pipelines.advantages import ADVANTAGES  # noqa: E402
from apps.policies.manifest import read_manifest  # noqa: E402
from apps.rewards import scorers  # noqa: E402
from apps.runs import config, parsing  # noqa: E402
from bench.bare_loop import POLICIES, TASKS, Loop, task_batches, trainer_spec  # noqa: E402
from bench.raters import RATERS  # noqa: E402
from workers.base_nll import BasePolicy  # noqa: E402
from workers.engines import choose  # noqa: E402
from workers.policies import building, recipes  # noqa: E402
from workers.trainer.collate import EXPERT, Row  # noqa: E402
from workers.trainer.host import TrainerHost  # noqa: E402

EVERYTHING = 15_360  # decisions: all replies of 120 updates of 128
MEASURED_UPDATES = 4  # batches sampled after the last update, whose mean is the final truth


@dataclass
class PeopleLoop(Loop):
    """A loop with rewards from a rater model, which asks simulated people on its schedule."""

    base: BasePolicy = None
    topics: Topics = None
    chance: random.Random = None
    learner: Learner = field(default_factory=Learner)
    experts: list[Row] = field(default_factory=list)
    updates: int = 0
    decisions: int = 0
    rewritten: int = 0
    predicted: list[float] = field(default_factory=list)
    distinct: list[float] = field(default_factory=list)

    def _judge(self, repeated_tasks: list, completions: list[list[int]]) -> list[float | None]:
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
        truths = [
            scorers.find_scorer("tone").of(text, task)
            for task, text in zip(repeated_tasks, texts, strict=True)
        ]
        self.rewards.append(sum(truth.value for truth in truths) / len(truths))
        self.well_formed.append(sum(truth.details["well_formed"] for truth in truths) / len(truths))
        self.distinct.append(len(set(texts)) / len(texts))
        values = (
            self._everybodys(truths)
            if self.asks_everything
            else self._predictions(repeated_tasks, completions, texts, truths)
        )
        self.predicted.append(sum(values) / len(values))
        size = self.plan.group_size
        section = self.plan.algorithm.advantage
        groups = [values[at : at + size] for at in range(0, len(values), size)]
        scored = ADVANTAGES[section.name](groups, **section.model_dump(exclude={"name"}))
        return [advantage for group in scored for advantage in group or [None] * size]

    @property
    def asks_everything(self) -> bool:
        """Tell whether every reply is rated by one rater, without a rater model."""
        return self.plan.people.schedule.decisions >= EVERYTHING

    def _everybodys(self, truths: list) -> list[float]:
        self.decisions += len(truths)
        return [
            (self.chance.choice(RATERS).stars(truth.value, self.chance) - 1) / 4 for truth in truths
        ]

    def _predictions(
        self, repeated_tasks: list, completions: list[list[int]], texts: list[str], truths: list
    ) -> list[float]:
        features = self._extract_features(repeated_tasks, completions, texts)
        self._ask(repeated_tasks, features, [truth.value for truth in truths])
        means, deviations = self.learner.fit().predict(features)
        return (means - self.plan.people.rater_model.pessimism * deviations).tolist()

    def _extract_features(
        self, repeated_tasks: list, completions: list[list[int]], texts: list[str]
    ) -> list[ReplyFeatures]:
        rows = [
            (self._prompt_ids(task), ids)
            for task, ids in zip(repeated_tasks, completions, strict=True)
        ]
        nlls = [BaseNll.of(token_nlls) for token_nlls in self.base.nlls(rows)]
        return [
            extract_features(task.prompt[-1]["content"], text, surprise, self.topics)
            for task, text, surprise in zip(repeated_tasks, texts, nlls, strict=True)
        ]

    def _ask(
        self, repeated_tasks: list, features: list[ReplyFeatures], truths: list[float]
    ) -> None:
        """Rate random rows, in different groups as far as possible."""
        scheduled = schedule_decisions(self.plan, (self.updates + 1) * self.plan.groups_per_step)
        self.updates += 1
        rewrites = max(0, scheduled.rewrites - self.rewritten)
        stars = max(0, scheduled.decisions - self.decisions - rewrites)
        order = sorted(range(len(features)), key=lambda _: self.chance.random())
        size = self.plan.group_size
        rows_by_group = {}
        for n in order:
            rows_by_group.setdefault(n // size, []).append(n)
        spread = [
            rows[place]
            for place in range(size)
            for rows in rows_by_group.values()
            if place < len(rows)
        ]
        for n in spread[:stars]:
            rater = self.chance.randrange(len(RATERS))
            self.learner.learn(
                ValuedReply(
                    features[n], (RATERS[rater].stars(truths[n], self.chance) - 1) / 4, rater
                )
            )
        for n in spread[stars : stars + rewrites]:
            self.experts.append(self._rewrite(repeated_tasks[n]))
        self.decisions += stars + rewrites
        self.rewritten += rewrites

    def _rewrite(self, task) -> Row:
        text = self.chance.choice(RATERS).rewrite(task.answer["object"], self.chance)
        answer = (
            *self.tokenizer.encode(text, add_special_tokens=False),
            self.tokenizer.eos_token_id,
        )
        return Row(
            tuple(self._prompt_ids(task)),
            answer,
            (1,) * len(answer),
            (0.0,) * len(answer),
            0.0,
            EXPERT,
        )

    def expert_rows(self) -> list[Row]:
        rows = self.plan.expert_rows_per_step
        return self.chance.choices(self.experts, k=rows) if self.experts and rows else []


def run_offline(budget: int, seed: int, options: argparse.Namespace) -> dict[str, object]:
    plan = offline_plan(budget, seed, options)
    folder = (
        options.policy
        or building.ensure(
            recipes.find_recipe("tone"), POLICIES, 0, lambda line: print(line, file=sys.stderr)
        )[0]
    )
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as output:
        host = TrainerHost(trainer_spec(plan, folder, Path(output), options.steps, seed))
        host.start()
        engine, _ = choose.build_engine(plan.engine, temperature=1.0, seed=seed)
        engine.start(folder, 0, read_manifest(folder).probe)
        batches = task_batches(plan, seed)
        prompts = [task.prompt[-1]["content"] for task in task_rows()]
        loop = PeopleLoop(
            plan,
            host,
            engine,
            AutoTokenizer.from_pretrained(folder),
            Path(output),
            base=BasePolicy(folder),
            topics=Topics(prompts),
            chance=random.Random(seed),
        )
        for step in range(options.steps):
            loop.step(next(batches), loop.expert_rows())
            if (step + 1) % 20 == 0:
                print_progress(f"{budget} seed {seed} update {step + 1}", loop)
        finals = [measure_offline(loop, next(batches)) for _ in range(MEASURED_UPDATES)]
        engine.stop()
        host.stop()
    return {
        "budget": budget,
        "seed": seed,
        "first": round(mean(loop.rewards[:3]), 3),
        "final": round(mean([v for v, _ in finals]), 3),
        "well_formed": round(mean([w for _, w in finals]), 3),
        "predicted": round(mean(loop.predicted[-5:]), 3),
        "distinct": round(loop.distinct[-1], 2),
        "asked": loop.decisions,
        "rewrites": loop.rewritten,
        "curve": [round(mean(loop.rewards[n : n + 5]), 2) for n in range(0, len(loop.rewards), 10)],
        "seconds": round(time.perf_counter() - began),
        **({"note": options.note} if options.note else {}),
    }


def print_progress(title: str, loop: PeopleLoop) -> None:
    print(
        f"{title}: true {mean(loop.rewards[-5:]):.3f} predicted {mean(loop.predicted[-5:]):.3f}"
        f" well-formed {mean(loop.well_formed[-5:]):.2f} distinct {loop.distinct[-1]:.2f}"
        f" asked {loop.decisions}",
        file=sys.stderr,
        flush=True,
    )


def measure_offline(loop: PeopleLoop, tasks: list) -> tuple[float, float]:
    repeated_tasks = [task for task in tasks for _ in range(loop.plan.group_size)]
    answers = loop._answers([loop._prompt_ids(task) for task in repeated_tasks])
    texts = [loop.tokenizer.decode(ids, skip_special_tokens=True) for ids, _ in answers]
    truths = [
        scorers.find_scorer("tone").of(text, task)
        for task, text in zip(repeated_tasks, texts, strict=True)
    ]
    return mean([t.value for t in truths]), mean([float(t.details["well_formed"]) for t in truths])


def task_rows() -> list:
    from apps.tasksets import generators

    return list(generators.find_generator("tone")(TASKS, 0))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def offline_plan(budget: int, seed: int, options: argparse.Namespace) -> config.RunConfig:
    rewrites = min(options.rewrites, budget // 2) if budget < EVERYTHING else 0
    mixing = {"ratio": options.ratio, "mu": options.mu, "source": "buffer"}
    mixing["schedule"] = {
        "warmup": 0,
        "decay": options.steps // 2,
        "peak": options.mu,
        "valley": 0.0,
    }
    algorithm = {
        "name": "mix" if rewrites else "grpo",
        "loss": {"name": "ppo", "clip_low": 0.2, "clip_high": options.clip_high},
        "aggregation": "token-mean",
        "kl": "none",
        **({"expert": mixing} if rewrites else {}),
    }
    schedule = {
        "decisions": budget,
        "rewrites": rewrites,
        **({"end_share": 1.0} if budget >= EVERYTHING else {}),
    }
    return parsing.parse_config(
        {
            "policy": "tone",
            "taskset": "tone",
            "steps": options.steps,
            "group_size": 8,
            "groups_per_step": 16,
            "seed": seed,
            "max_staleness": 0,
            "engine": "transformers",
            "sampling": {"max_tokens": 48},
            "algorithm": algorithm,
            "people": {
                "form": "stars",
                "per_group": 8,
                "at_deadline": "fill_with_rater_model",
                "schedule": schedule,
                "rater_model": {"pessimism": options.pessimism},
            },
            "optimizer": {"learning_rate": options.learning_rate, "warmup_steps": 5},
        }
    )


def main() -> None:
    options = parse_options()
    torch.set_num_threads(1)
    for budget in options.budgets:
        for seed in options.seeds:
            print(json.dumps(run_offline(budget, seed, options)), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--budgets",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[50, 150, 400, EVERYTHING],
    )
    parser.add_argument(
        "--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[0, 1]
    )
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--rewrites", type=int, default=0)
    parser.add_argument("--mu", type=float, default=0.2)
    parser.add_argument("--ratio", type=float, default=0.11)
    parser.add_argument("--clip-high", type=float, default=0.28)
    parser.add_argument("--pessimism", type=float, default=0.0)
    parser.add_argument("--policy", type=Path)
    parser.add_argument("--note", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
