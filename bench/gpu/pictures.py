"""Check that the engine and the trainer compute the same logprobs for pictures.

    python bench/gpu/pictures.py [--engine vllm] [--policy FOLDER] [--requests 64]

It samples answers to questions with one, two or no pictures, before and after the weights change
during an answer, and compares every token's logprob with a plain fp32 forward pass over the whole
text. Without a folder it builds an untrained tiny policy. The exit code is 1 if the mean difference
is above the limit of the parity probe.
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

from apps.policies.manifest import ShownPicture, read_manifest  # noqa: E402
from workers.engines.choose import build_engine  # noqa: E402
from workers.engines.interface import Engine, Request, Sampling  # noqa: E402
from workers.engines.parity import UNROUNDED_LIMITS  # noqa: E402
from workers.policies.tiny_vision import build_seeing, square  # noqa: E402
from workers.vision import loading  # noqa: E402
from workers.vision.image_processor import ImageProcessor  # noqa: E402
from workers.vision.merging import build_text_inputs  # noqa: E402

COLOURS = ("red", "green", "blue", "yellow")
PictureQuestion = tuple[tuple[int, ...], tuple[ShownPicture, ...]]
Replies = dict[str, tuple[list[int], list[float]]]


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
        folder = options.policy or _built(Path(scratch) / "base")
        image_processor = ImageProcessor(folder)
        engine, reason = build_engine(options.engine, temperature=1.0, seed=0, sees=True)
        print(f"{engine.name}: {reason}", file=sys.stderr)
        questions = {
            f"r{number}": draw_picture_question(image_processor, number)
            for number in range(options.requests)
        }
        started = engine.start(folder, 0, read_manifest(folder).probe)
        began = time.perf_counter()
        replies = answer_during_load(engine, questions, folder, options.max_tokens)
        seconds = time.perf_counter() - began
        engine.stop()
        gaps = measure_gaps(folder, image_processor, questions, replies)
    limit = UNROUNDED_LIMITS["bfloat16" if torch.cuda.is_available() else "float32"]
    figures = {
        "engine": engine.name,
        "probe_gap": started.probe_gap,
        "tokens": len(gaps),
        "tokens_per_s": len(gaps) / seconds,
        "mean_gap": gaps.mean().item(),
        "worst_gap": gaps.max().item(),
        "limit": limit,
    }
    print(json.dumps(figures))
    return int(not figures["mean_gap"] <= limit)


def draw_picture_question(image_processor: ImageProcessor, number: int) -> PictureQuestion:
    """Return a question about no, one or two squares."""
    pictures = [
        square(COLOURS[(number + place) % 4], 2 + place, 4, 12 + number % 8)
        for place in range(number % 3)
    ]
    parts = [
        *[{"type": "image"}] * len(pictures),
        {"type": "text", "text": "What is in this picture?"},
    ]
    message = {"role": "user", "content": parts}
    text = image_processor.processor.apply_chat_template(
        [message], add_generation_prompt=True, tokenize=False
    )
    return image_processor.encode(text, pictures, begins=True)


def answer_during_load(
    engine: Engine, questions: dict[str, PictureQuestion], folder: Path, max_tokens: int
) -> Replies:
    """Return the engine's answers, while the same weights are loaded again in the middle.

    The reload makes the engine read every text anew.
    """
    replies: Replies = {key: ([], []) for key in questions}
    engine.submit(
        [
            Request(key, ids, Sampling(max_tokens), pictures)
            for key, (ids, pictures) in questions.items()
        ]
    )
    is_exchanged = False
    while engine.in_flight():
        for delta in engine.drain(1.0):
            replies[delta.request_id][0].extend(delta.token_ids)
            replies[delta.request_id][1].extend(delta.logprobs)
        if not is_exchanged and any(ids for ids, _ in replies.values()):
            engine.load(folder, 1, read_manifest(folder).probe)
            is_exchanged = True
    for delta in engine.drain(0.0):
        replies[delta.request_id][0].extend(delta.token_ids)
        replies[delta.request_id][1].extend(delta.logprobs)
    return replies


@torch.no_grad()
def measure_gaps(
    folder: Path,
    image_processor: ImageProcessor,
    questions: dict[str, PictureQuestion],
    replies: Replies,
) -> torch.Tensor:
    """Return the absolute differences, in nats, from the logprobs of one pass over the text."""
    model = (
        loading.load_vision_model(folder, dtype="float32")
        .eval()
        .to("cuda" if torch.cuda.is_available() else "cpu")
    )
    gaps = []
    for key, (prompt, pictures) in questions.items():
        ids = torch.tensor([[*prompt, *replies[key][0]]], device=model.device)
        logprobs = (
            model(**build_text_inputs(model, image_processor, ids, [pictures]))
            .logits[0, :-1]
            .float()
            .log_softmax(-1)
        )
        plain_logprobs = logprobs.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0].cpu()
        gaps.append((plain_logprobs - torch.tensor(replies[key][1])).abs())
    return torch.cat(gaps)


def _built(folder: Path) -> Path:
    build_seeing(folder, loudness=3.0)
    return folder


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto", choices=("auto", "vllm", "transformers"))
    parser.add_argument("--policy", type=Path, help="sealed folder of a vision policy")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=48)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
