"""Weights that people chat with: a version of a run, or a model as it was added."""

from dataclasses import dataclass

from apps.policies.models import Policy
from apps.rollouts.models.chats import ChatSubject
from apps.runs.models import WeightVersion
from workers import gpu_turns
from workers.engines.vllm_options import VllmOptions
from workers.gpu_turns import GpuTurn
from workers.vllm_plan import build_vllm_options, installed_share


@dataclass(frozen=True)
class ChatWeights:
    """What a chat session serves, and how its engine is built.

    `number` is the version's, 0 for a model; `precision` and `engine` are as a run's configuration
    gives them.
    """

    subject: ChatSubject
    source: WeightVersion | Policy
    policy: Policy
    number: int
    engine: str
    vllm: VllmOptions
    precision: str

    @classmethod
    def of_version(cls, version: WeightVersion) -> "ChatWeights":
        """Serve a version as its run does."""
        plan = version.run.settings
        return cls(
            subject=ChatSubject(version.pk, None),
            source=version,
            policy=version.run.policy,
            number=version.version,
            engine=plan.engine,
            vllm=build_vllm_options(plan),
            precision=plan.precision.engine,
        )

    @classmethod
    def of_policy(cls, policy: Policy) -> "ChatWeights":
        """Serve a model that no run need have, as a run does by default."""
        return cls(
            subject=ChatSubject(None, policy.pk),
            source=policy,
            policy=policy,
            number=0,
            engine="auto",
            vllm=VllmOptions(memory_share=installed_share()),
            precision="auto",
        )

    @property
    def title(self) -> str:
        if isinstance(self.source, WeightVersion):
            return f"version {self.number}"
        return f"model {self.policy.slug}"

    @property
    def log_fields(self) -> dict[str, object]:
        if isinstance(self.source, WeightVersion):
            return {"run": self.source.run, "weight_version": self.number}
        return {"policy": self.policy.slug}

    def gpu_turn(self) -> GpuTurn | None:
        """Return the turn at this process's GPUs that the engine has to wait for.

        None where nobody takes turns. A model has no plan that says so, so it always waits.
        """
        if isinstance(self.source, WeightVersion):
            return gpu_turns.turn_for(self.source.run.settings)
        return gpu_turns.turn_at_visible_gpus()


def find_chat_weights(subject: ChatSubject) -> ChatWeights | None:
    """Return the weights that turns are asked of; None if they were deleted just now."""
    if subject.version is not None:
        versions = WeightVersion.objects.select_related("run__policy")
        version = versions.filter(pk=subject.version).first()
        return ChatWeights.of_version(version) if version else None
    if subject.policy is None:
        return None
    policy = Policy.objects.filter(pk=subject.policy).first()
    return ChatWeights.of_policy(policy) if policy else None
