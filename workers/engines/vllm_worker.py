"""Extension of vLLM's worker processes that replaces weights there.

Names used from vLLM 0.32: `worker_extension_cls`, the worker's `reload_weights(weights_path=)` and
`get_model()`, `ParallelLMHead.quant_method.process_weights_after_loading`.
"""

from typing import Protocol

from torch import nn


class WorkerOfVllm(Protocol):
    """What vLLM's worker class has, into which the mixin below is mixed."""

    def reload_weights(self, *, weights_path: str) -> None: ...

    def get_model(self) -> nn.Module: ...


class WeightReplacement:
    """Mixin for vLLM's worker class, called by name from the engine (`collective_rpc`)."""

    def replace_weights(self: WorkerOfVllm, folder: str) -> None:
        """Load another version's tensors into the live model.

        The caller makes sure that nothing is sampled meanwhile.
        """
        self.reload_weights(weights_path=folder)
        repack_heads(self.get_model())

    def sign_of_life(self) -> bool:
        """Return True, as proof that the computing process responds.

        The process that answers for it may be alive while this one hangs.
        """
        return True


def repack_heads(model: nn.Module) -> None:
    """Repack the weights of output heads.

    On a CPU, a head keeps a packed copy of its weights for its matrix product. A reload packs only
    what it loads, and a head tied to the embedding is not loaded. It would keep the old weights,
    and its logprobs would match neither version.
    """
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)
