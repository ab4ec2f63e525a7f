"""Client library to train policies of an rftweb installation in your own environments.

The README shows how.
"""

from rftweb_client.clients import AsyncClient, Client
from rftweb_client.documents import (
    Environment,
    Episode,
    Observation,
    Reward,
    RewardResult,
    Settings,
    Task,
    Turn,
)
from rftweb_client.playing import Plays, Step
from rftweb_client.problems import (
    Conflict,
    Forbidden,
    Gone,
    NotAcceptable,
    NotFound,
    NotNow,
    Problem,
    RftwebError,
    Unauthorized,
    Unreachable,
)

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "Environment",
    "Episode",
    "Forbidden",
    "Gone",
    "NotAcceptable",
    "NotFound",
    "NotNow",
    "Observation",
    "Plays",
    "Problem",
    "Reward",
    "RewardResult",
    "RftwebError",
    "Settings",
    "Step",
    "Task",
    "Turn",
    "Unauthorized",
    "Unreachable",
]
