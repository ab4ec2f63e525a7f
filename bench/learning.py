"""Learning on a small task: MIX, SFT and GRPO from a cold start, five algorithms from a warm one.

    python bench/learning.py [--cells mix,grpo,...] [--seeds 0,1,2] [--every] [--report]

Policies are built here (a minute each, once). The task is sorting five digits; every cell is one
run of `bare_loop`: production engine, scorer, advantages, trainer, sealed weights. Finished cells
are stored in var/learning.jsonl and are not run again, so cells can be run one at a time;
`--report` only prints the table and draws docs/learning.svg from the stored results.

    cold    the policy has only ever copied or sorted downwards (about 1 % sort upwards);
            64 demonstrations; 200 updates of 128 rows each (MIX: 112 sampled, 16 demonstrated;
            SFT: the same 16), learning rate 2e-4
    warm    the policy of `examples/sort.yaml` (about 39 %); 150 updates of 128 rows,
            learning rate 2e-4

`--every` runs the warm start once with every algorithm of the table that compares the rewards
within a group, with its own settings, and draws docs/algorithms.svg; there are no aims for these.

Accuracy is the share of 256 fixed prompts that a sampled answer gets right. The last line is one
JSON object.
"""

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import django
import torch
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
django.setup()  # a configuration is checked against models

from apps.pipelines.advantages import ADVANTAGES  # noqa: E402
from apps.policies.manifest import read_manifest  # noqa: E402
from apps.rewards import scorers  # noqa: E402
from apps.runs import config, parsing  # noqa: E402
from apps.runs.algorithms import describing  # noqa: E402
from apps.runs.algorithms.table import TABLE  # noqa: E402
from apps.tasksets import generators  # noqa: E402
from apps.tasksets.generators.sort import DIGITS  # noqa: E402
from bench.bare_loop import POLICIES, Loop, task_batches, trainer_spec  # noqa: E402
from bench.curves import draw_curves, gallery  # noqa: E402
from workers.engines import choose  # noqa: E402
from workers.policies import building, recipes  # noqa: E402
from workers.trainer.collate import EXPERT, Row  # noqa: E402
from workers.trainer.host import TrainerHost  # noqa: E402

RESULTS = ROOT / "var" / "learning.jsonl"
PLOT = ROOT / "docs" / "learning.svg"
GALLERY = ROOT / "docs" / "algorithms.svg"
DEMONSTRATIONS = 64
EXPERT_ROWS = 16
MEASURED = 256  # prompts per measurement
EVERY = 20  # updates between two measurements
MEASURED_SEED = 7_000_003  # of the measured prompts
SHOWN_SEED = 9_000_011  # of the demonstrated prompts
COPIES = 0.65  # share of the cold policy's demonstrators
UPDATES = {"cold": 200, "warm": 150}
COMMON = {
    "policy": "sort",
    "taskset": "sort",
    "steps": 200,
    "group_size": 8,
    "groups_per_step": 16,
    "engine": "transformers",
    "sampling": {"max_tokens": 8},
    "rewards": [{"scorer": "sort"}],
    "optimizer": {"learning_rate": 2e-4, "warmup_steps": 5},
}
# TRL's default settings of GRPO, except for the higher upper clip.
CLIPPED = {
    "loss": {"name": "ppo", "clip_low": 0.2, "clip_high": 0.28},
    "aggregation": "token-mean",
    "kl": "none",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A curve: its start, its algorithm, and a bound on its final accuracy.

    The bound is `at_least` or `at_most`.
    """

    start: str
    algorithm: dict
    at_least: float = 0.0
    at_most: float = 1.0
    groups: int = 16
    optimizer: dict = dataclasses.field(default_factory=dict)

    def plan(self) -> config.RunConfig:
        optimizer = {**COMMON["optimizer"], **self.optimizer}
        return parsing.parse_config(
            {
                **COMMON,
                "groups_per_step": self.groups,
                "algorithm": self.algorithm,
                "optimizer": optimizer,
            }
        )


EXPERTS = {"ratio": 0.125, "mu": 0.2, "loss": "sft", "source": "buffer"}
CELLS = {
    "mix": Cell("cold", {"name": "mix", **CLIPPED, "expert": EXPERTS}, at_least=0.6, groups=14),
    "grpo-alone": Cell("cold", {"name": "grpo", **CLIPPED}, at_most=0.1),
    "sft-alone": Cell(
        "cold",
        {"name": "mix", **CLIPPED, "expert": {**EXPERTS, "mu": 1.0}},
        at_most=0.45,
        groups=14,
    ),
    "grpo": Cell("warm", {"name": "grpo", "kl": "none"}, at_least=0.85),
    "dr_grpo": Cell("warm", {"name": "dr_grpo"}, at_least=0.85),
    "gspo": Cell("warm", {"name": "gspo"}, at_least=0.85),
    "cispo": Cell("warm", {"name": "cispo"}, at_least=0.85),
    "kimi_opmd": Cell("warm", {"name": "kimi_opmd", "reset_optimizer": False}, at_least=0.85),
}
OWN_ROW = "row "  # prefix of cells with one algorithm of the table, with its own settings
EVERY_ROW = {
    f"{OWN_ROW}{name}": Cell(
        "warm", {"name": name, **({"reset_optimizer": False} if name == "kimi_opmd" else {})}
    )
    for name in TABLE
    if (algorithm := describing.of(name)).advantage.name in ADVANTAGES
    and not algorithm.advantage.over_batch
    and not (algorithm.expert.is_used or algorithm.has_teacher or algorithm.learns_from_lessons)
}


# -- one cell


def train_cell(name: str, seed: int) -> dict[str, object]:
    """Train the cell once; return its accuracies by number of updates."""
    cell = {**CELLS, **EVERY_ROW}[name]
    plan = cell.plan()
    folder = starting_policy(cell.start)
    updates = UPDATES[cell.start]
    began = time.perf_counter()
    curve = {}
    with tempfile.TemporaryDirectory() as output:
        host = TrainerHost(trainer_spec(plan, folder, Path(output), updates, seed))
        host.start()
        engine, _ = choose.build_engine(
            plan.engine, temperature=plan.sampling.temperature, seed=seed
        )
        engine.start(folder, 0, read_manifest(folder).probe)
        loop = Loop(plan, host, engine, AutoTokenizer.from_pretrained(folder), Path(output))
        measured = list(generators.find_generator("sort")(MEASURED, MEASURED_SEED))
        batches = task_batches(plan, seed)
        experts = expert_batches(plan, loop.tokenizer, seed)
        for update in range(updates + 1):
            if update % EVERY == 0 or update == updates:
                curve[update] = accuracy(loop, measured)
                print(
                    f"{name} seed {seed} update {update}: {curve[update]:.3f}",
                    file=sys.stderr,
                    flush=True,
                )
            if update < updates:
                one_update(name, loop, next(batches), next(experts))
        engine.stop()
        host.stop()
    return {
        "cell": name,
        "seed": seed,
        "curve": curve,
        "seconds": round(time.perf_counter() - began, 1),
    }


def one_update(name: str, loop: Loop, tasks: list, experts: list[Row]) -> None:
    """Make one update.

    SFT samples nothing: its update has the expert rows only, and its weights are loaded at the next
    measurement.
    """
    if name == "sft-alone":
        loop.host.update(experts)
        if loop.host.step % EVERY == 0:
            loop._sync()
    else:
        loop.step(tasks, experts)


def accuracy(loop: Loop, tasks: list) -> float:
    """Return the share of the tasks that one sampled answer gets right."""
    scorer = scorers.find_scorer("sort")
    answers = loop._answers([loop._prompt_ids(task) for task in tasks])
    texts = [loop.tokenizer.decode(ids, skip_special_tokens=True) for ids, _ in answers]
    return sum(
        scorer.of(text, task).value == 1.0 for task, text in zip(tasks, texts, strict=True)
    ) / len(tasks)


def expert_batches(
    plan: config.RunConfig, tokenizer: AutoTokenizer, seed: int
) -> Iterator[list[Row]]:
    """Yield endless batches of demonstrations, reshuffled in every epoch.

    They are empty for plans without experts.
    """
    demonstrations = [
        expert_row(task, tokenizer)
        for task in generators.find_generator("sort")(DEMONSTRATIONS, SHOWN_SEED)
    ]
    order = random.Random(seed)
    rows = plan.expert_rows_per_step
    waiting = []
    while True:
        if len(waiting) < rows:
            waiting += order.sample(demonstrations, len(demonstrations))
        yield [waiting.pop() for _ in range(rows)]


def expert_row(task, tokenizer: AutoTokenizer) -> Row:
    prompt = tokenizer.apply_chat_template(
        task.prompt, add_generation_prompt=True, return_dict=False
    )
    answer = [
        *tokenizer.encode(task.answer["sorted"], add_special_tokens=False),
        tokenizer.eos_token_id,
    ]
    return Row(tuple(prompt), tuple(answer), (1,) * len(answer), (0.0,) * len(answer), 0.0, EXPERT)


# -- initial policies


def starting_policy(start: str) -> Path:
    recipe = recipes.find_recipe("sort")
    if start == "cold":
        recipe = dataclasses.replace(recipe, demonstrate=never_upwards)
    return building.ensure(recipe, POLICIES, 0, lambda line: print(line, file=sys.stderr))[0]


def never_upwards(seed: int) -> Iterator[tuple[str, str]]:
    """Yield demonstrations that hardly ever do the task.

    Two demonstrators of three copy, the third sorts downwards.
    """
    generator = random.Random(seed)
    while True:
        digits = f"{generator.randrange(10**DIGITS):0{DIGITS}d}"
        yield (
            digits,
            digits if generator.random() < COPIES else "".join(sorted(digits, reverse=True)),
        )


# -- the report


def load_stored_results() -> dict[tuple[str, int], dict]:
    """Return the stored results by cell and seed; of a cell run twice, the newest."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {(row["cell"], row["seed"]): row for row in map(json.loads, lines)}


def print_learning_table(results: list[dict]) -> dict[str, object]:
    """Print the table and draw the plot; return the figures."""
    summary = {}
    print(
        f"{'start':6}{'cell':12}{'seeds':>6}{'first':>8}{'last':>8}{'worst':>8}{'wanted':>10}"
        f"{'seconds':>9}"
    )
    for name, cell in CELLS.items():
        rows = [row for row in results if row["cell"] == name]
        if not rows:
            continue
        lasts = [mean_of_last_two(row["curve"]) for row in rows]
        worst = min(lasts) if cell.at_least else max(lasts)
        holds = cell.at_least <= worst <= cell.at_most
        bound = f">= {cell.at_least}" if cell.at_least else f"<= {cell.at_most}"
        first, last = (
            sum(values) / len(rows)
            for values in ([float(row["curve"]["0"]) for row in rows], lasts)
        )
        seconds = sum(row["seconds"] for row in rows) / len(rows)
        print(
            f"{cell.start:6}{name:12}{len(rows):>6}{first:>8.3f}{last:>8.3f}{worst:>8.3f}"
            f"{bound:>10}{seconds:>9.0f}"
        )
        summary[name] = {
            "seeds": len(rows),
            "first": round(first, 3),
            "last": round(last, 3),
            "worst": round(worst, 3),
            "holds": holds,
        }
    PLOT.write_text(draw_curves({start: curves_by_cell(start, results) for start in UPDATES}))
    rows = {
        name.removeprefix(OWN_ROW): row["curve"]
        for name in EVERY_ROW
        for row in results
        if row["cell"] == name
    }
    if rows:
        GALLERY.write_text(gallery(rows))
        summary["rows"] = {name: round(mean_of_last_two(curve), 3) for name, curve in rows.items()}
    return summary


def mean_of_last_two(curve: dict[str, float]) -> float:
    """Return the mean of the last two measurements: a single one has a deviation of 0.03."""
    return sum(list(curve.values())[-2:]) / 2


def curves_by_cell(start: str, results: list[dict]) -> dict[str, list[dict[str, float]]]:
    """Return the curve of every seed, by cell."""
    return {
        name: [r["curve"] for r in results if r["cell"] == name]
        for name, cell in CELLS.items()
        if cell.start == start
    }


def main() -> None:
    options = parse_options()
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(exist_ok=True)
    for name in [] if options.report else EVERY_ROW if options.every else options.cells:
        for seed in options.seeds[:1] if options.every else options.seeds:
            if (name, seed) not in load_stored_results():
                row = train_cell(name, seed)
                with RESULTS.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
    summary = print_learning_table(list(load_stored_results().values()))
    missing = [name for name in CELLS if name not in summary]
    rows = summary.pop("rows", {})
    passed = not missing and all(cell["holds"] for cell in summary.values())
    print(json.dumps({"cells": summary, "missing": missing, "passed": passed, "rows": rows}))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cells", type=lambda text: text.split(","), default=list(CELLS), help=", ".join(CELLS)
    )
    parser.add_argument(
        "--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[0, 1, 2]
    )
    parser.add_argument(
        "--every",
        action="store_true",
        help="run every algorithm of the table once instead of the cells",
    )
    parser.add_argument("--report", action="store_true", help="only print the results so far")
    options = parser.parse_args()
    if unknown := set(options.cells) - CELLS.keys() - EVERY_ROW.keys():
        parser.error(f"--cells: no {', '.join(sorted(unknown))}; known: {', '.join(CELLS)}")
    return options


if __name__ == "__main__":
    main()
