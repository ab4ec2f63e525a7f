"""Do an engine and the trainer see the same in pictures, here?

    python bench/gpu/pictures.py [--engine vllm] [--policy FOLDER] [--requests 64]

Samples answers to questions about drawn pictures (one, two and none in a text), before and after weights are exchanged in
mid-answer, and compares every token's logprob with a plain fp32 pass of the model over the whole text. Without a folder an
untrained tiny policy is built. Exit code 1 where the mean gap is above the limit of the parity probe.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from apps.policies.manifest import Shown, read_manifest  # noqa: E402
from workers.engines.choose import build  # noqa: E402
from workers.engines.interface import Engine, Request, Sampling  # noqa: E402
from workers.engines.parity import LIMIT  # noqa: E402
from workers.policies.seeing import build_seeing, square  # noqa: E402
from workers.vision import loading  # noqa: E402
from workers.vision.eyes import Eyes  # noqa: E402
from workers.vision.merging import text_of  # noqa: E402

COLOURS = ("red", "green", "blue", "yellow")
Asked = tuple[tuple[int, ...], tuple[Shown, ...]]
Said = dict[str, tuple[list[int], list[float]]]


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
        folder = options.policy or _built(Path(scratch) / "base")
        eyes = Eyes(folder)
        engine, reason = build(options.engine, temperature=1.0, seed=0, sees=True)
        print(f"{engine.name}: {reason}", file=sys.stderr)
        asked = {f"r{number}": question(eyes, number) for number in range(options.requests)}
        started = engine.start(folder, 0, read_manifest(folder).probe)
        began = time.perf_counter()
        said = answers(engine, asked, folder, options.max_tokens)
        seconds = time.perf_counter() - began
        engine.stop()
        gaps = gaps_of(folder, eyes, asked, said)
    figures = {
        "engine": engine.name, "probe_gap": started.probe_gap, "tokens": len(gaps), "tokens_per_s": len(gaps) / seconds,
        "mean_gap": gaps.mean().item(), "worst_gap": gaps.max().item(), "limit": LIMIT,
    }  # fmt: skip
    print(json.dumps(figures))
    return int(not figures["mean_gap"] <= LIMIT)


def question(eyes: Eyes, number: int) -> Asked:
    """A question about no, one or two squares."""
    shown = [square(COLOURS[(number + place) % 4], 2 + place, 4, 12 + number % 8) for place in range(number % 3)]
    parts = [*[{"type": "image"}] * len(shown), {"type": "text", "text": "What is in this picture?"}]
    message = {"role": "user", "content": parts}
    text = eyes.processor.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
    return eyes.spell(text, shown, begins=True)


def answers(engine: Engine, asked: dict[str, Asked], folder: Path, max_tokens: int) -> Said:
    """What the engine says; the same weights are loaded again while it does, so that every text is read anew."""
    said: Said = {key: ([], []) for key in asked}
    engine.submit([Request(key, ids, Sampling(max_tokens), shown) for key, (ids, shown) in asked.items()])
    is_exchanged = False
    while engine.in_flight():
        for delta in engine.drain(1.0):
            said[delta.request_id][0].extend(delta.token_ids)
            said[delta.request_id][1].extend(delta.logprobs)
        if not is_exchanged and any(ids for ids, _ in said.values()):
            engine.load(folder, 1, read_manifest(folder).probe)
            is_exchanged = True
    for delta in engine.drain(0.0):
        said[delta.request_id][0].extend(delta.token_ids)
        said[delta.request_id][1].extend(delta.logprobs)
    return said


@torch.no_grad()
def gaps_of(folder: Path, eyes: Eyes, asked: dict[str, Asked], said: Said) -> torch.Tensor:
    """Absolute differences, in nats, of all that was said from a pass over the whole text."""
    model = loading.read(folder, dtype="float32").eval().to("cuda" if torch.cuda.is_available() else "cpu")
    found = []
    for key, (prompt, shown) in asked.items():
        ids = torch.tensor([[*prompt, *said[key][0]]], device=model.device)
        logprobs = model(**text_of(model, eyes, ids, [shown])).logits[0, :-1].float().log_softmax(-1)
        own = logprobs.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0].cpu()
        found.append((own - torch.tensor(said[key][1])).abs())
    return torch.cat(found)


def _built(folder: Path) -> Path:
    build_seeing(folder, loudness=3.0)
    return folder


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto", choices=("auto", "vllm", "transformers"))
    parser.add_argument("--policy", type=Path, help="a sealed folder of a policy that sees")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=48)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
