"""Losses by name, one family per file.

Every function is pure, and its keyword arguments are the loss's options.
"""

from collections.abc import Callable

from workers.algorithms.losses.clipped import decoupled, ppo
from workers.algorithms.losses.gated import cispo, sapo
from workers.algorithms.losses.preferences import dpo, kto
from workers.algorithms.losses.regression import kimi, opmd
from workers.algorithms.losses.sequence import gspo
from workers.algorithms.losses.supervised import sft, sft_is, sft_phi
from workers.algorithms.losses.weighted import importance_sampling, rec, sppo, topr
from workers.algorithms.tokens import RowLoss, TokenLoss

# tokens, options → a value per token
LOSSES: dict[str, Callable[..., TokenLoss]] = {
    "ppo": ppo,
    "gspo": gspo,
    "cispo": cispo,
    "sapo": sapo,
    "topr": topr,
    "sppo": sppo,
    "opmd": opmd,
    "kimi": kimi,
    "rec": rec,
    "importance_sampling": importance_sampling,
    "decoupled": decoupled,
    "sft": sft,
    "sft_is": sft_is,
    "sft_phi": sft_phi,
}

# tokens, people's judgements, options → a value per pair or per row
PREFERENCE_LOSSES: dict[str, Callable[..., RowLoss]] = {"dpo": dpo, "kto": kto}
