"""The options of each loss.

What they do is written at the function of the same name in `workers.algorithms.losses`.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from apps.runs.algorithms.section import NotNegative, Positive, Section, Share

ClipLow = Annotated[
    float,
    Field(ge=0, le=1, description="Lower clip: the probability ratio counts down to 1 − this."),
]
ClipHigh = Annotated[
    float,
    Field(ge=0, le=1000, description="Upper clip: the probability ratio counts up to 1 + this."),
]
Temperature = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Cap = Annotated[
    float | None,
    Field(gt=0, le=1e6, description="Upper limit of importance weights. If empty, none."),
]


class PPO(Section):
    name: Literal["ppo"] = Field("ppo", description="The clipped ratio of PPO, GRPO and DAPO.")
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    dual_clip: float | None = Field(
        3.0,
        gt=1,
        le=1000,
        description=(
            "Maximum loss of a token with a negative advantage, as a multiple of the advantage. If "
            "empty, none."
        ),
    )
    sequence_mask: float | None = Field(
        None,
        ge=0,
        le=1000,
        description=(
            "Drops tokens with a negative advantage if the reply is further than this from the "
            "policy, in nats per token."
        ),
    )
    policy_gradient_fallback: bool = Field(
        False, description="Plain policy gradient: treats samples as on-policy."
    )


class GSPO(Section):
    name: Literal["gspo"] = Field("gspo", description="One clipped ratio for the whole reply.")
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4


class CISPO(Section):
    name: Literal["cispo"] = Field(
        "cispo", description="Clips the importance weight but keeps the gradient."
    )
    clip_low: ClipLow = 1.0
    clip_high: ClipHigh = 0.28
    mask_low: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Masks tokens with a negative advantage and a ratio below 1 − this.",
    )
    mask_high: float | None = Field(
        None,
        ge=0,
        le=1000,
        description="Masks tokens with a positive advantage and a ratio above 1 + this.",
    )


class SAPO(Section):
    name: Literal["sapo"] = Field("sapo", description="A soft gate in place of clipping.")
    tau_positive: Temperature = Field(
        1.0, description="Steepness of the gate for positive advantages."
    )
    tau_negative: Temperature = Field(
        1.05, description="Steepness of the gate for negative advantages."
    )
    constant_gate: bool = Field(
        False, description="Treat the gate as a constant weight of the logprob."
    )


class TOPR(Section):
    name: Literal["topr"] = Field(
        "topr",
        description="Good samples as in supervised training; bad ones with a tapered weight.",
    )
    threshold: float = Field(
        0.0, allow_inf_nan=False, description="Advantages above this count as good."
    )


class SPPO(Section):
    name: Literal["sppo"] = Field("sppo", description="The log ratio within a symmetric range.")
    epsilon: Positive = Field(
        0.3, le=1000, description="The range is from 1/(1 + this) to 1 + this."
    )


class OPMD(Section):
    name: Literal["opmd"] = Field("opmd", description="Mirror descent to first order.")
    tau: NotNegative = Field(1.0, le=1e6, description="Weight of staying near the sampling policy.")


class Kimi(Section):
    name: Literal["kimi"] = Field(
        "kimi", description="Kimi k1.5's mirror descent: aggregate by seq-mean-token-sum."
    )
    tau: NotNegative = Field(
        0.1, le=1e6, description="Weight of the squared distance to the sampling policy."
    )


class REC(Section):
    name: Literal["rec"] = Field("rec", description="REINFORCE with optional corrections.")
    clip_mode: Literal["none", "two-side", "one-side", "sequence-one-side", "ring"] = Field(
        "none", description="Which tokens count, depending on the ratio."
    )
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    outer_low: Share = Field(0.6, description="The outer ring begins at a ratio of 1 − this.")
    outer_high: NotNegative = Field(
        2.0, le=1000, description="The outer ring begins at a ratio of 1 + this."
    )
    weight: Literal["none", "importance", "truncated", "sequence", "advantage"] = Field(
        "none", description="Constant weight of a token's gradient."
    )
    regularizer: Literal["none", "k2", "forward-kl"] = Field(
        "none", description="What keeps the policy near the sampling policy."
    )
    regularizer_coefficient: NotNegative = Field(0.0, le=1e6, description="Its weight.")
    temperature: Temperature = Field(
        1.0, description="For the weight `advantage`: exp(advantage / this)."
    )


class ImportanceSampling(Section):
    name: Literal["importance_sampling"] = Field(
        "importance_sampling", description="The ratio itself, without clipping."
    )
    cap: Cap = None


class Decoupled(Section):
    name: Literal["decoupled"] = Field(
        "decoupled",
        description="Clips around the weights at the start of the step, for stale data.",
    )
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    cap: Cap = 5.0
    floor: float | None = Field(
        None, gt=0, le=1, description="Lower limit of importance weights. If empty, none."
    )
    correction: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] = (
        Field(
            "token_truncate",
            description=(
                "Whether weights beyond cap or floor are clipped or their tokens masked, per token "
                "or per reply."
            ),
        )
    )


class SFT(Section):
    name: Literal["sft"] = Field("sft", description="Cross-entropy.")


class SFTIS(Section):
    name: Literal["sft_is"] = Field(
        "sft_is", description="Cross-entropy weighted by the token's probability p."
    )


class SFTPhi(Section):
    name: Literal["sft_phi"] = Field("sft_phi", description="Cross-entropy weighted by p (1 − p).")
    cutoff: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Ignores tokens with a probability above this. If empty, none.",
    )


class DPO(Section):
    name: Literal["dpo"] = Field("dpo", description="Pairs of replies, one of them preferred.")
    beta: Positive = Field(0.1, le=1000, description="Strength of the reference model (β).")
    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="Estimated share of pairs with the wrong preference.",
    )


class KTO(Section):
    name: Literal["kto"] = Field("kto", description="Single replies rated good or bad.")
    beta: Positive = Field(0.1, le=1000, description="Strength of the reference model (β).")
    desirable_weight: NotNegative = Field(1.0, le=1000, description="Weight of good replies.")
    undesirable_weight: NotNegative = Field(1.0, le=1000, description="Weight of bad replies.")


class PluginLoss(Section):
    name: Literal["plugin"] = Field("plugin", description="Your own loss, from a plugin.")
    plugin: str = Field(min_length=1, max_length=60, description="Name of the plugin.")
    options: dict[str, JsonValue] = Field({}, description="Options of the plugin.")


SampleLoss = (
    PPO
    | GSPO
    | CISPO
    | SAPO
    | TOPR
    | SPPO
    | OPMD
    | Kimi
    | REC
    | ImportanceSampling
    | Decoupled
    | PluginLoss
)
SupervisedLoss = SFT | SFTIS | SFTPhi
PreferenceLoss = DPO | KTO

Loss = Annotated[SampleLoss | SupervisedLoss | PreferenceLoss, Field(discriminator="name")]


def loss_arguments(loss: Section) -> dict[str, object]:
    """Return the keyword arguments for the function of the loss's name."""
    return loss.model_dump(exclude={"name"})
