"""Serving: callers send their own prompts at their own pace, and the run trains on the replies."""

from typing import Annotated, Literal

from pydantic import Field

from apps.runs.algorithms.section import Positive, Section

MAX_SECONDS = 2_592_000
Waiting = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]


class Serve(Section):
    """Each session of a caller is a group of one rollout.

    Its first messages become its task, stored in the run's taskset.
    """

    over_bound: Literal["refuse", "answer_only"] = Field(
        "refuse",
        description=(
            "What happens to a new session if max_staleness leaves no room. refuse: status 429 "
            "with Retry-After, so that every reply can be trained on. answer_only: the session is "
            "answered and recorded but never trained on."
        ),
    )
    idle_s: Positive = Field(
        120.0,
        le=86_400,
        description=(
            "Seconds without a call after which a named session ends and can be trained on. A call "
            "without a session name is a session of its own and ends with the reply."
        ),
    )
    feedback_s: Waiting = Field(
        600.0,
        description=(
            "Seconds after the end of a session in which feedback counts; later feedback is stored "
            "as late. A longer time collects more feedback, but more replies exceed max_staleness."
        ),
    )
    settle_s: Waiting | None = Field(
        30.0,
        description=(
            "Seconds without new feedback after which the group is complete, even before "
            "feedback_s is over. If empty, the group waits for all of feedback_s or for feedback "
            "marked as final."
        ),
    )
