"""The options of each loss. What they do is written at the function of the same name in `workers.algorithms.losses`."""

from typing import Annotated, Literal

from pydantic import Field

from apps.runs.algorithms.section import NotNegative, Positive, Section, Share

ClipLow = Annotated[float, Field(ge=0, le=1, description="The probability ratio counts down to 1 − this.")]
ClipHigh = Annotated[float, Field(ge=0, le=1000, description="The probability ratio counts up to 1 + this.")]
Temperature = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Cap = Annotated[float | None, Field(gt=0, le=1e6, description="Importance weights are truncated here; empty leaves them whole.")]


class PPO(Section):
    name: Literal["ppo"] = Field("ppo", description="The clipped ratio of PPO, GRPO and DAPO.")
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    dual_clip: float | None = Field(
        3.0, gt=1, le=1000, description="Bounds the loss of a token with a negative advantage by this many advantages; empty: no."
    )
    sequence_mask: float | None = Field(
        None,
        ge=0,
        le=1000,
        description="Drops tokens with a negative advantage from answers further than this from the policy, in nats a token.",
    )
    policy_gradient_fallback: bool = Field(False, description="Plain policy gradient: treat the samples as the policy's own.")


class GSPO(Section):
    name: Literal["gspo"] = Field("gspo", description="One clipped ratio for the whole answer.")
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4


class CISPO(Section):
    name: Literal["cispo"] = Field("cispo", description="Clips the weight and keeps the gradient.")
    clip_low: ClipLow = 1.0
    clip_high: ClipHigh = 0.28
    mask_low: float | None = Field(
        None, ge=0, le=1, description="Silences tokens with a negative advantage and a ratio below 1 − this."
    )
    mask_high: float | None = Field(
        None, ge=0, le=1000, description="Silences tokens with a positive advantage and a ratio above 1 + this."
    )


class SAPO(Section):
    name: Literal["sapo"] = Field("sapo", description="A soft gate in place of the clip.")
    tau_positive: Temperature = Field(1.0, description="How sharply the gate closes where the advantage is positive.")
    tau_negative: Temperature = Field(1.05, description="How sharply the gate closes where the advantage is negative.")
    constant_gate: bool = Field(False, description="Take the gate as a constant weight of the log-probability.")


class TOPR(Section):
    name: Literal["topr"] = Field("topr", description="Good samples as in supervised training, bad ones tapered.")
    threshold: float = Field(0.0, allow_inf_nan=False, description="An advantage above this is good.")


class SPPO(Section):
    name: Literal["sppo"] = Field("sppo", description="The logarithm of the ratio, inside a symmetric range.")
    epsilon: Positive = Field(0.3, le=1000, description="The range is from 1/(1 + this) to 1 + this.")


class OPMD(Section):
    name: Literal["opmd"] = Field("opmd", description="Mirror descent to first order.")
    tau: NotNegative = Field(1.0, le=1e6, description="Weight of staying near the sampling policy.")


class Kimi(Section):
    name: Literal["kimi"] = Field("kimi", description="Kimi k1.5's mirror descent: aggregate by seq-mean-token-sum.")
    tau: NotNegative = Field(0.1, le=1e6, description="Weight of the squared distance to the sampling policy.")


class REC(Section):
    name: Literal["rec"] = Field("rec", description="REINFORCE with each of its cures as an option.")
    clip_mode: Literal["none", "two-side", "one-side", "sequence-one-side", "ring"] = Field(
        "none", description="Which tokens count, by the ratio."
    )
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    outer_low: Share = Field(0.6, description="The outer ring begins at a ratio of 1 − this.")
    outer_high: NotNegative = Field(2.0, le=1000, description="The outer ring begins at a ratio of 1 + this.")
    weight: Literal["none", "importance", "truncated", "sequence", "advantage"] = Field(
        "none", description="The constant weight of a token's gradient."
    )
    regularizer: Literal["none", "k2", "forward-kl"] = Field("none", description="What keeps the policy near the samples.")
    regularizer_coefficient: NotNegative = Field(0.0, le=1e6, description="Its weight.")
    temperature: Temperature = Field(1.0, description="Of the weight `advantage`, e to the advantage over this.")


class ImportanceSampling(Section):
    name: Literal["importance_sampling"] = Field("importance_sampling", description="The ratio itself, without a clip.")
    cap: Cap = None


class Decoupled(Section):
    name: Literal["decoupled"] = Field(
        "decoupled", description="Clips around the weights at the start of the update, for stale data."
    )
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    cap: Cap = 5.0
    floor: float | None = Field(
        None, gt=0, le=1, description="The same from below; empty leaves small weights as they are."
    )
    correction: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] = Field(
        "token_truncate",
        description="Weights beyond cap or floor are cut to it, or their tokens are left out; by "
        "the weight of each token, or by that of the whole answer.",
    )


class SFT(Section):
    name: Literal["sft"] = Field("sft", description="Cross-entropy.")


class SFTIS(Section):
    name: Literal["sft_is"] = Field("sft_is", description="Cross-entropy weighted by the token's probability p.")


class SFTPhi(Section):
    name: Literal["sft_phi"] = Field("sft_phi", description="Cross-entropy weighted by p (1 − p).")
    cutoff: float | None = Field(None, gt=0, le=1, description="Tokens with a probability above this are left alone; empty: none.")


class DPO(Section):
    name: Literal["dpo"] = Field("dpo", description="Pairs of answers, the better one marked.")
    beta: Positive = Field(0.1, le=1000, description="How strongly the reference model holds.")
    label_smoothing: float = Field(0.0, ge=0, lt=0.5, description="Share of the pairs believed to be marked the wrong way round.")


class KTO(Section):
    name: Literal["kto"] = Field("kto", description="Single answers with a thumb up or down.")
    beta: Positive = Field(0.1, le=1000, description="How strongly the reference model holds.")
    desirable_weight: NotNegative = Field(1.0, le=1000, description="Weight of a thumb up.")
    undesirable_weight: NotNegative = Field(1.0, le=1000, description="Weight of a thumb down.")


SampleLoss = PPO | GSPO | CISPO | SAPO | TOPR | SPPO | OPMD | Kimi | REC | ImportanceSampling | Decoupled
SupervisedLoss = SFT | SFTIS | SFTPhi
PreferenceLoss = DPO | KTO

Loss = Annotated[SampleLoss | SupervisedLoss | PreferenceLoss, Field(discriminator="name")]


def options(loss: Section) -> dict[str, object]:
    """The keyword arguments for the function of the loss's name."""
    return loss.model_dump(exclude={"name"})
