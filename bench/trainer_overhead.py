"""Overhead of feeding an update from the buffer, over TRL's own trainer on the same batch.

    python bench/trainer_overhead.py [--parameters 2e7] [--tokens 1024] [--rows 32] [--micro 4]
    [--rounds 3] [--threads 1]

Both trainers stay loaded and take turns in one process, in an order that changes from round to
round, so that other load on the machine affects both alike. Ours unpacks stored payloads, collates,
updates and reports; TRL's gets finished tensors and does no feeding: the ratio is the cost of our
side. Tokens per second are those of the fastest round. Then some of our updates are made with
timers around forward, backward and optimizer (with gradient clipping): the rest of the step is the
share outside. The last line is JSON. On a CPU the full size takes a minute or two per update; try
`--parameters 1e6 --tokens 256 --rows 16` first.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_OFFLINE"] = "1"

from datasets import Dataset  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402
from transformers.trainer_callback import PrinterCallback  # noqa: E402
from trl import GRPOTrainer  # noqa: E402

from apps.rollouts.payload import Tokens, pack, unpack_payload  # noqa: E402
from workers.policies.tiny import build_sized  # noqa: E402
from workers.trainer.batch_queue import BatchQueue, Stopped  # noqa: E402
from workers.trainer.buffer_grpo_trainer import grpo_arguments, judged_elsewhere  # noqa: E402
from workers.trainer.collate import Row, collate  # noqa: E402
from workers.trainer.host import TrainerHost  # noqa: E402
from workers.trainer.spec import Loss, Objective, TrainerSpec  # noqa: E402

PROMPT = 64  # tokens of each row
VOCABULARY = range(6, 16)
WARM_UP = 1  # rounds that do not count
DAPO = Objective(Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": None}), "token-mean")


class PlainTrainer(GRPOTrainer):
    """TRL's trainer with batches of prepared tensors."""

    batch_queue: BatchQueue

    def _generate_and_score_completions(
        self, inputs: list[dict[str, Any]]
    ) -> dict[str, torch.Tensor]:
        return {
            name: tensor.to(self.accelerator.device)
            for name, tensor in self.batch_queue.get().items()
        }


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "policy"
        build_sized(folder, options.parameters, context=options.tokens)
        figures = measure_trainer(options, folder, Path(scratch))
    for name, value in figures.items():
        print(f"{name:28} {value}")
    print(json.dumps(figures))
    return 0


def measure_trainer(options: argparse.Namespace, folder: Path, scratch: Path) -> dict[str, Any]:
    spec = TrainerSpec(
        policy=folder,
        output=scratch / "checkpoints",
        planned_steps=1000,
        rows_per_step=options.rows,
        micro_batch_rows=options.micro,
        objective=DAPO,
        max_completion_length=options.tokens - PROMPT,
    )
    payloads = batch(options.rows, options.tokens)
    host = TrainerHost(spec)
    host.start()
    batch_queue, thread = start_plain(spec, scratch / "plain")
    tensors = collate(build_payload_rows(payloads), 0, divisible_by=spec.forward_passes)

    def ours() -> object:
        return host.update(build_payload_rows(payloads))

    def plain() -> object:
        return batch_queue.put(tensors)

    seconds = interleaved({"ours": ours, "plain": plain}, options.rounds)
    shares = measure_step_shares(host, ours, max(2, options.rounds // 2))
    parameters = host.trainer.model.num_parameters()
    host.stop()
    batch_queue.stop()
    thread.join()
    return summarize_overhead(options, parameters, seconds, shares)


def summarize_overhead(
    options: argparse.Namespace,
    parameters: int,
    seconds: dict[str, list[float]],
    shares: dict[str, float],
) -> dict[str, Any]:
    """Return the figures; `ratio` is by processor time if there is no GPU.

    A busy machine changes the wall time at random.
    """
    tokens = options.rows * options.tokens
    on_gpu = torch.cuda.is_available()
    by_wall = ratios(seconds, "")
    by_processor = ratios(seconds, ", cpu")
    return {
        "parameters": parameters,
        "tokens_per_row": options.tokens,
        "rows": options.rows,
        "device": torch.cuda.get_device_name() if on_gpu else f"cpu, {options.threads} threads",
        "rounds": len(by_wall),
        "our_tokens_per_s": round(tokens / min(seconds["ours"]), 1),
        "trl_tokens_per_s": round(tokens / min(seconds["plain"]), 1),
        "ratio": round(statistics.median(by_wall if on_gpu else by_processor), 4),
        "ratio_of_wall_seconds": round(statistics.median(by_wall), 4),
        "ratio_of_fastest_rounds": round(min(seconds["plain"]) / min(seconds["ours"]), 4),
        "ratio_of_processor_seconds": round(statistics.median(by_processor), 4),
        **{f"share_{name}": round(share, 4) for name, share in shares.items()},
    }


def ratios(seconds: dict[str, list[float]], clock: str) -> list[float]:
    """Return our speed relative to TRL's, round by round."""
    return [
        plain / ours
        for ours, plain in zip(seconds[f"ours{clock}"], seconds[f"plain{clock}"], strict=True)
    ]


def batch(count: int, tokens: int) -> list[bytes]:
    """Return stored payloads of `count` rows of `tokens` tokens each, prompt included."""
    draw = random.Random(0)
    length = tokens - PROMPT
    return [
        pack(
            Tokens(
                prompt_ids=tuple(draw.choice(VOCABULARY) for _ in range(PROMPT)),
                completion_ids=tuple(draw.choice(VOCABULARY) for _ in range(length)),
                logprobs=tuple(draw.gauss(-3.0, 0.3) for _ in range(length)),
                action_mask=(1,) * length,
                segments=((0, 0),),
            )
        )
        for _ in range(count)
    ]


def build_payload_rows(payloads: list[bytes]) -> list[Row]:
    """Return the rows as `workers.trainer.run_trainer` makes them from stored payloads."""
    stored = [unpack_payload(payload) for payload in payloads]
    return [
        Row(
            tokens.prompt_ids,
            tokens.completion_ids,
            tokens.action_mask,
            tokens.logprobs,
            advantage=(-1.0) ** place,
        )
        for place, tokens in enumerate(stored)
    ]


def start_plain(
    spec: TrainerSpec, staging: Path, kind: type[PlainTrainer] = PlainTrainer
) -> tuple[BatchQueue, threading.Thread]:
    """Start TRL's trainer with our arguments, on its own thread, blocked until its first batch."""
    batch_queue: BatchQueue = BatchQueue()

    def live() -> None:
        error = None
        try:
            trainer = kind(
                model=str(spec.policy),
                reward_funcs=judged_elsewhere,
                args=plain_arguments(spec, staging),
                train_dataset=Dataset.from_dict({"prompt": [""] * spec.planned_steps}),
                processing_class=AutoTokenizer.from_pretrained(spec.policy),
            )
            trainer.remove_callback(PrinterCallback)
            trainer.batch_queue = batch_queue
            trainer.train()
        except Stopped:
            pass
        except BaseException as ended:  # passed to the thread that waits for a batch
            error = ended
        finally:
            batch_queue.close(error)

    thread = threading.Thread(target=live, name="plain trainer", daemon=True)
    thread.start()
    batch_queue.wait()
    return batch_queue, thread


def plain_arguments(spec: TrainerSpec, staging: Path):
    arguments = grpo_arguments(spec, staging)
    arguments.loss_type = "dapo"
    arguments.epsilon = 0.2
    arguments.epsilon_high = 0.28
    return arguments


def interleaved(acts: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each act in each round.

    Processor seconds are under "…, cpu"; they do not depend on the load of the machine.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + WARM_UP):
        order = list(acts) if number % 2 else list(reversed(acts))
        for name in order:
            worked = time.process_time()
            took = timed(acts[name])
            if number >= WARM_UP:
                seconds[name].append(took)
                seconds[f"{name}, cpu"].append(time.process_time() - worked)
    return seconds


def measure_step_shares(host: TrainerHost, act: Callable[[], Any], times: int) -> dict[str, float]:
    """Return the shares of our step: forward (with loss), backward, optimizer, and the rest.

    The optimizer's share includes gradient clipping.
    """
    spent: dict[str, float] = defaultdict(float)
    trainer = host.trainer
    parts = {
        "forward": (trainer, "compute_loss"),
        "backward": (trainer.accelerator, "backward"),
        "optimizer": (trainer.optimizer, "step"),
        "clipping": (trainer.accelerator, "clip_grad_norm_"),
    }
    with clocks(parts, spent):
        total = sum(timed(act) for _ in range(times))
    spent["optimizer"] += spent.pop("clipping", 0.0)
    shares = {name: spent[name] / total for name in ("forward", "backward", "optimizer")}
    return {**shares, "outside": 1 - sum(shares.values())}


@contextmanager
def clocks(parts: dict[str, tuple[Any, str]], spent: dict[str, float]):
    """Add the seconds of each named method to `spent` within the block."""
    originals = {name: getattr(owner, method) for name, (owner, method) in parts.items()}
    for name, (owner, method) in parts.items():
        setattr(owner, method, _clock(originals[name], name, spent))
    try:
        yield
    finally:
        for owner, method in parts.values():
            delattr(owner, method)


def _clock(method: Callable, name: str, spent: dict[str, float]) -> Callable:
    def act(*args: Any, **kwargs: Any) -> Any:
        results = []
        spent[name] += timed(lambda: results.append(method(*args, **kwargs)))
        return results[0]

    return act


def timed(act: Callable[[], Any]) -> float:
    """Return the seconds until the act is done, on the GPU too."""
    _settle()
    began = time.perf_counter()
    act()
    _settle()
    return time.perf_counter() - began


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=float, default=2e7)
    parser.add_argument(
        "--tokens", type=int, default=1024, help=("tokens per row, including the prompt")
    )
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--micro", type=int, default=4, help="rows per forward pass")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
