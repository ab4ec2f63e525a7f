"""When somebody should look at a run: one threshold for each rule, and whether its alert pauses the run."""

from typing import Annotated

from pydantic import Field

from apps.runs.algorithms.section import Section, Share

Seconds = Annotated[float, Field(ge=10, le=2_592_000, allow_inf_nan=False)]
Nats = Annotated[float, Field(gt=0, le=1_000, allow_inf_nan=False)]
Newest = Annotated[int, Field(ge=1, le=50)]


class Rule(Section):
    pause: bool = Field(False, description="Pause the run when the alert opens, once for each alert.")


class NoProgress(Rule):
    after_s: Seconds = Field(1_800.0, description="Seconds without an update while the run is live.")
    times: Annotated[float, Field(ge=1, le=1_000, allow_inf_nan=False)] = Field(
        10.0, description="And at least so many times what its updates take in the median, so that slow runs are not told of."
    )


class Starvation(Rule):
    after_s: Seconds = Field(
        900.0, description="Seconds that the trainer has waited for people, judging, sampling or refining, whichever holds most."
    )


class NothingLearned(Rule):
    pause: bool = Field(True, description="Pause the run when the alert opens, once for each alert.")
    updates: int = Field(
        20, ge=1, le=1_000, description="Updates' worth of groups in a row, all of them dropped; at most 2,000 groups."
    )


class NotFinite(Rule):
    updates: Newest = Field(1, description="Updates that were not applied, since their loss or gradient was NaN or infinite.")
    among: Newest = Field(20, description="Newest updates looked at; the alert ends when so many went well.")


class Kl(Rule):
    reference: Nats = Field(1.0, description="From the reference model, mean per token.")
    behaviour: Nats = Field(0.2, description="From the weights that sampled, mean per token.")
    steps: Newest = Field(3, description="Newest updates whose mean must be above; the alert ends at nine tenths of it.")


class Agreement(Rule):
    """Its thresholds are those of `rewards.….trust` and of `hacking`."""


class Suspected(Rule):
    """Its thresholds are those of `hacking`."""


class Entropy(Rule):
    share: Share = Field(0.05, description="Of the entropy of the first updates: under it the policy hardly explores.")
    success: Share = Field(0.95, description="No alert from this share of full rewards on: then nothing is left to explore.")
    steps: Newest = Field(5, description="Newest updates whose mean must be below, and first ones that it is measured by.")


class Unacknowledged(Rule):
    after_s: Seconds = Field(300.0, description="Seconds since weights were published that no engine has acknowledged.")


class Breaker(Rule):
    """Its thresholds are the environment's own: failures in a row."""


class Disk(Rule):
    free: Share = Field(0.05, description="Share of the disk under weights and data that must be free.")


class Silence(Rule):
    after_s: Seconds = Field(120.0, description="Seconds without a sign of life from any worker of a role that the run needs.")


class LostWorker(Rule):
    after_s: Seconds = Field(60.0, description="Seconds without a sign of life, after which a worker counts as dead.")
    until_s: Seconds = Field(86_400.0, description="Seconds after which a dead worker counts as put away, and its alert ends.")


class ControlBehind(Rule):
    after_s: Seconds = Field(60.0, description="Seconds without a sweep; one is due every five.")


class NearBudget(Rule):
    share: Share = Field(0.8, description="Of a limit of `budget`, from which it is told; at the whole of it the run pauses.")


class Alerts(Section):
    """Each rule may be left out (null): then it is never told of."""

    no_progress: NoProgress | None = Field(NoProgress(), description="No update is made while the run is live.")
    starvation: Starvation | None = Field(Starvation(), description="The trainer waits for people, judging or the explorer.")
    nothing_learned: NothingLearned | None = Field(
        NothingLearned(), description="All groups are dropped: nothing can be learned from them."
    )
    not_finite: NotFinite | None = Field(NotFinite(), description="Updates are skipped: their loss or gradient is NaN or infinite.")
    kl: Kl | None = Field(Kl(), description="The policy has moved too far.")
    agreement: Agreement | None = Field(
        Agreement(), description="The machine's reward is not what people say: a scorer under its `trust`, or the two going apart."
    )
    suspected: Suspected | None = Field(Suspected(), description="Other signs that it pleases its scorers instead of being good.")
    entropy: Entropy | None = Field(Entropy(), description="The policy says the same again and again, and is not good yet.")
    unacknowledged: Unacknowledged | None = Field(Unacknowledged(), description="Published weights that no engine serves.")
    breaker: Breaker | None = Field(Breaker(), description="Its environment failed so often that no more is played in it for now.")
    disk: Disk | None = Field(Disk(), description="The disk is nearly full.")
    silence: Silence | None = Field(Silence(), description="No worker of a role that it needs is alive.")
    lost_worker: LostWorker | None = Field(LostWorker(), description="One worker among several of its roles died, or was fenced.")
    control_behind: ControlBehind | None = Field(
        ControlBehind(), description="No sweep is done: leases, imports, exports and alerts are late."
    )
    budget: NearBudget | None = Field(NearBudget(), description="It comes near a limit of its budget.")
