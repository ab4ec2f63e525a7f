"""Extension of vLLM's worker processes, which replaces weights there.

Names relied on in vLLM 0.32: `worker_extension_cls`, the worker's `reload_weights(weights_path=)`
and `get_model()`, `ParallelLMHead.quant_method.process_weights_after_loading`.
"""

from torch import nn


class WeightReplacement:
    """Mixin of vLLM's worker class, called by name from the engine (`collective_rpc`)."""

    def replace_weights(self, folder: str) -> None:
        """Read another version's tensors into the live model.

        The caller sees to it that nothing runs meanwhile.
        """
        self.reload_weights(weights_path=folder)
        repack_heads(self.get_model())

    def sign_of_life(self) -> bool:
        """Return True, as proof that the computing process responds.

        The process that answers for it may be well while this one hangs.
        """
        return True


def repack_heads(model: nn.Module) -> None:
    """Repack the weights of output heads.

    On CPU a head keeps a packed copy for its matrix product. A reload packs what it loads, and a
    head tied to the embedding is not loaded: it would go on with the old weights, and logprobs
    would match neither version.
    """
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)
