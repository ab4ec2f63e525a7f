"""Alert rules of a run: the threshold of each rule, and whether its alert pauses the run."""

from typing import Annotated

from pydantic import Field

from apps.runs.algorithms.section import Section, Share

Seconds = Annotated[float, Field(ge=10, le=2_592_000, allow_inf_nan=False)]
Nats = Annotated[float, Field(gt=0, le=1_000, allow_inf_nan=False)]
Newest = Annotated[int, Field(ge=1, le=50)]


class Rule(Section):
    pause: bool = Field(
        False, description="Pause the run when the alert opens, once for each alert."
    )


class NoProgress(Rule):
    after_s: Seconds = Field(1_800.0, description="Seconds without a step while the run is live.")
    step_time_factor: Annotated[float, Field(ge=1, le=1_000, allow_inf_nan=False)] = Field(
        10.0,
        description=(
            "Minimum waiting time as a multiple of the median step time, so that slow runs raise "
            "no alert."
        ),
    )


class Starvation(Rule):
    after_s: Seconds = Field(
        900.0,
        description=(
            "Seconds that the trainer has waited for people, scorers, sampling or refining, "
            "whichever is the longest."
        ),
    )


class NothingLearned(Rule):
    pause: bool = Field(
        True, description="Pause the run when the alert opens, once for each alert."
    )
    steps: int = Field(
        20,
        ge=1,
        le=1_000,
        description=(
            "Number of steps whose groups were all dropped, one after the other; at most 2,000 "
            "groups."
        ),
    )


class NotFinite(Rule):
    steps: Newest = Field(
        1,
        description=(
            "Number of steps that were skipped because the loss or gradient was NaN or infinite."
        ),
    )
    window: Newest = Field(
        20,
        description=(
            "Number of newest steps to look at; the alert ends after that many good ones."
        ),
    )


class Kl(Rule):
    reference: Nats = Field(1.0, description="Divergence from the reference model, mean per token.")
    behaviour: Nats = Field(
        0.2, description="Divergence from the weights that sampled, mean per token."
    )
    steps: Newest = Field(
        3,
        description=(
            "Number of newest steps whose mean must be above the limit. The alert ends at 90% of "
            "the limit."
        ),
    )


class Agreement(Rule):
    """Rule on scorers' agreement with people.

    Its thresholds are those of `rewards.….trust` and of `hacking`.
    """


class Suspected(Rule):
    """Rule on suspected reward hacking, by the thresholds of `hacking`."""


class Entropy(Rule):
    share: Share = Field(
        0.05,
        description=(
            "Share of the entropy in the first steps below which the policy hardly explores."
        ),
    )
    success: Share = Field(
        0.95,
        description=(
            "Share of full rewards above which there is no alert, because nothing is left to "
            "explore."
        ),
    )
    steps: Newest = Field(
        5,
        description=(
            "Number of newest steps whose mean must be below the limit, and of first steps to "
            "compare with."
        ),
    )


class BehaviourGap(Rule):
    max_ratio: Annotated[float, Field(gt=1, le=1_000, allow_inf_nan=False)] = Field(
        3.0,
        description=(
            "Multiple of the median gap in the first steps above which there is an alert."
        ),
    )
    min_gap: Nats = Field(
        0.05, description="Minimum gap in nats per token; smaller gaps raise no alert."
    )
    baseline_steps: Newest = Field(20, description="Number of first steps to compare with.")
    steps: Newest = Field(
        5,
        description=(
            "Number of newest steps whose mean must be above the limit. The alert ends at 90% of "
            "the limit."
        ),
    )


class Unacknowledged(Rule):
    after_s: Seconds = Field(
        300.0, description="Seconds after publication in which no engine acknowledges the weights."
    )


class Breaker(Rule):
    """Rule on an environment's failures in a row, by the environment's own thresholds."""


class Disk(Rule):
    min_free_share: Share = Field(
        0.05, description="Minimum free share of the disk that holds weights and data."
    )


class Silence(Rule):
    after_s: Seconds = Field(
        120.0,
        description="Seconds without a heartbeat from any worker of a role that the run needs.",
    )


class LostWorker(Rule):
    after_s: Seconds = Field(
        60.0, description="Seconds without a heartbeat after which a worker counts as lost."
    )
    removed_after_s: Seconds = Field(
        86_400.0,
        description="Seconds after which a lost worker counts as removed and its alert ends.",
    )


class ControlWorkerLate(Rule):
    after_s: Seconds = Field(
        60.0,
        description=(
            "Seconds without a sweep of the control worker; a sweep is due every five seconds."
        ),
    )


class NearBudget(Rule):
    share: Share = Field(
        0.8,
        description="Share of a limit in `budget` that raises the alert. At 100% the run pauses.",
    )


class Alerts(Section):
    """Alert rules of a run; a rule that is null raises no alert."""

    no_progress: NoProgress | None = Field(
        NoProgress(), description="No step while the run is live."
    )
    starvation: Starvation | None = Field(
        Starvation(), description="The trainer waits for people, scorers or the explorer."
    )
    nothing_learned: NothingLearned | None = Field(
        NothingLearned(), description="All groups are dropped, so nothing is learned."
    )
    not_finite: NotFinite | None = Field(
        NotFinite(),
        description="Steps are skipped because their loss or gradient is NaN or infinite.",
    )
    kl: Kl | None = Field(
        Kl(),
        description=(
            "The policy has moved too far from the reference model or the sampling weights."
        ),
    )
    agreement: Agreement | None = Field(
        Agreement(),
        description=(
            "Machine rewards disagree with people: a scorer is below its `trust`, or the two "
            "diverge."
        ),
    )
    suspected: Suspected | None = Field(Suspected(), description="Other signs of reward hacking.")
    entropy: Entropy | None = Field(
        Entropy(), description="The policy repeats itself and its rewards are not full yet."
    )
    behaviour_gap: BehaviourGap | None = Field(
        BehaviourGap(),
        description="The logprobs of engine and trainer for the same tokens diverge.",
    )
    unacknowledged: Unacknowledged | None = Field(
        Unacknowledged(), description="No engine serves the published weights."
    )
    breaker: Breaker | None = Field(
        Breaker(),
        description="The environment failed so often that no new episodes start for now.",
    )
    disk: Disk | None = Field(Disk(), description="The disk is nearly full.")
    silence: Silence | None = Field(Silence(), description="No worker of a required role is alive.")
    lost_worker: LostWorker | None = Field(
        LostWorker(), description="One of several workers of a role was lost or fenced."
    )
    control_worker_late: ControlWorkerLate | None = Field(
        ControlWorkerLate(),
        description="The control worker is late: leases, imports, exports and alerts wait.",
    )
    budget: NearBudget | None = Field(
        NearBudget(), description="Usage is near a limit of the budget."
    )
