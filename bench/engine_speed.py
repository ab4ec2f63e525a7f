"""Throughput of a bare engine in tokens per second, prefill included.

    python bench/engine_speed.py [--engine transformers|vllm|auto] [--tokens 6,25] [--batches 1,16]
        [--group 8] [--rounds 3] [--threads 1] [--policy FOLDER]

Without a policy it builds an untrained one of the demo's size (3 layers, 128 wide). Each figure is
the median of some rounds of requests with random prompts of about ten tokens, each asked `group`
times, and a fixed number of new tokens.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from apps.policies.manifest import read_manifest  # noqa: E402
from workers.engines.choose import build_engine  # noqa: E402
from workers.engines.interface import Engine, Request, Sampling  # noqa: E402
from workers.policies.tiny import build_tiny  # noqa: E402

BATCHES = (1, 16, 64, 128)
MIN_TOKENS = 1500  # a round goes on until so many are asked for
VOCABULARY = 20


def main() -> int:
    """Run the benchmark from the command line."""
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.policy or _policy(Path(scratch))
        engine, reason = build_engine(
            options.engine, temperature=1.0, seed=0, threads=options.threads
        )
        print(f"{engine.name}: {reason}")
        engine.start(folder, 1, read_manifest(folder).probe)
        try:
            figures = [_row(engine, tokens, options) for tokens in options.tokens]
        finally:
            engine.stop()
    print(
        json.dumps(
            {
                "engine": engine.name,
                "group": options.group,
                "tokens_per_second": {row["tokens"]: row["by_batch"] for row in figures},
            }
        )
    )
    return 0


def _row(engine: Engine, tokens: int, options: argparse.Namespace) -> dict:
    by_batch = {}
    for batch in options.batches:
        speeds = [_round(engine, batch, tokens, options.group) for _ in range(options.rounds)]
        by_batch[batch] = round(statistics.median(speeds))
        print(f"{tokens:>4} new tokens, batch {batch:>4}: {by_batch[batch]:>8} tok/s", flush=True)
    return {"tokens": tokens, "by_batch": by_batch}


def _round(engine: Engine, batch: int, tokens: int, group: int) -> float:
    """Return the tokens per second while complete batches follow each other."""
    started = time.perf_counter()
    sampled = 0
    while sampled < MIN_TOKENS:
        sampled += whole_batch(engine, batch, tokens, group)
    return sampled / (time.perf_counter() - started)


def whole_batch(engine: Engine, batch: int, tokens: int, group: int) -> int:
    sampling = Sampling(tokens)
    prompts = [
        tuple(random.randrange(2, VOCABULARY) for _ in range(random.randint(8, 12)))
        for _ in range(batch)
    ]
    engine.submit(
        [Request(str(index), prompts[index // group], sampling) for index in range(batch)]
    )
    sampled = 0
    while engine.in_flight():
        sampled += sum(len(delta.token_ids) for delta in engine.drain(1.0))
    return sampled + sum(len(delta.token_ids) for delta in engine.drain(0.0))


def _policy(scratch: Path) -> Path:
    build_tiny(scratch / "policy", hidden=128, layers=3)
    return scratch / "policy"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--tokens", type=_numbers, default=[6, 25])
    parser.add_argument(
        "--batches", type=_numbers, default=BATCHES, help=("number of simultaneous requests")
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of the transformers engine on a CPU"
    )
    parser.add_argument(
        "--group", type=int, default=8, help=("number of requests with the same prompt")
    )
    parser.add_argument("--policy", type=Path)
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
