"""Tokens a second of a bare engine, prefill included.

    python bench/engine_speed.py [--engine transformers|vllm|auto] [--tokens 6,25] [--group 8] [--policy FOLDER]

Without a policy it builds an untrained one of the demo's size (3 layers, 128 wide). Each figure is the median of
three rounds of requests with random prompts of about ten tokens, each asked `group` times, and a fixed number of new
tokens.
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
from workers.engines.choose import build  # noqa: E402
from workers.engines.interface import Engine, Request, Sampling  # noqa: E402
from workers.policies.tiny import build_tiny  # noqa: E402

BATCHES = (1, 16, 64, 128)
ROUNDS = 3
LEAST_TOKENS = 1500  # a round goes on until so many are asked for
VOCABULARY = 20


def main() -> int:
    """Entry of the script."""
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.policy or _policy(Path(scratch))
        engine, reason = build(options.engine, temperature=1.0, seed=0)
        print(f"{engine.name}: {reason}")
        engine.start(folder, 1, read_manifest(folder).probe)
        try:
            figures = [_row(engine, tokens, options.group) for tokens in options.tokens]
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


def _row(engine: Engine, tokens: int, group: int) -> dict:
    by_batch = {}
    for batch in BATCHES:
        by_batch[batch] = round(statistics.median(_round(engine, batch, tokens, group) for _ in range(ROUNDS)))
        print(f"{tokens:>4} new tokens, batch {batch:>4}: {by_batch[batch]:>8} tok/s", flush=True)
    return {"tokens": tokens, "by_batch": by_batch}


def _round(engine: Engine, batch: int, tokens: int, group: int) -> float:
    """Tokens a second while whole batches follow each other."""
    started, said = time.perf_counter(), 0
    while said < LEAST_TOKENS:
        said += _whole_batch(engine, batch, tokens, group)
    return said / (time.perf_counter() - started)


def _whole_batch(engine: Engine, batch: int, tokens: int, group: int) -> int:
    sampling = Sampling(tokens)
    prompts = [tuple(random.randrange(2, VOCABULARY) for _ in range(random.randint(8, 12))) for _ in range(batch)]
    engine.submit([Request(str(index), prompts[index // group], sampling) for index in range(batch)])
    said = 0
    while engine.in_flight():
        said += sum(len(delta.token_ids) for delta in engine.drain(1.0))
    return said + sum(len(delta.token_ids) for delta in engine.drain(0.0))


def _policy(scratch: Path) -> Path:
    build_tiny(scratch / "policy", hidden=128, layers=3)
    return scratch / "policy"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--tokens", type=lambda text: [int(part) for part in text.split(",")], default=[6, 25])
    parser.add_argument("--group", type=int, default=8, help="requests with the same prompt")
    parser.add_argument("--policy", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
