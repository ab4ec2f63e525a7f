"""How a run serves: callers come at their own pace with prompts of their own, and the run trains on what they leave."""

from typing import Annotated, Literal

from pydantic import Field

from apps.runs.algorithms.section import Positive, Section

LONGEST_S = 2_592_000
Waiting = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]


class Serve(Section):
    """Each session of a caller's is a group of one; its first words are its task, kept in the taskset that the run names."""

    over_bound: Literal["refuse", "answer_only"] = Field(
        "refuse", description="A session begun where max_staleness leaves no room: refused (429 with Retry-After), so that all "
        "that is answered can be learned from; or answered, recorded and never trained on, so that nobody is turned away.",
    )  # fmt: skip
    idle_s: Positive = Field(
        120.0, le=86_400, description="Seconds without a call after which a named session is over: only then can it be learned "
        "from. A call without a name is a session of its own, over when it is answered.",
    )  # fmt: skip
    feedback_s: Waiting = Field(
        600.0, description="Seconds after a session's end within which people's words count; what comes later is kept as late. "
        "Longer hears more people, and more answers grow older than max_staleness allows.",
    )  # fmt: skip
    settle_s: Waiting | None = Field(
        30.0, description="Seconds after the newest word within which it may still be changed: then the group goes on, though "
        "feedback_s is not over. Empty waits for all of feedback_s, unless a word comes that is said to be final.",
    )  # fmt: skip
