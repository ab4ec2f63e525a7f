"""The kind of plugins that send alerts: `send(message, address)`."""

from collections.abc import Iterator
from types import ModuleType

from apps.plugins.contract import problems_of_call
from apps.plugins.kinds import ALERT_CHANNEL
from apps.plugins.parts import kind_of_parts
from apps.plugins.registry import REGISTRY


def _problems(module: ModuleType) -> Iterator[str]:
    if hasattr(module, "Options"):
        yield "defines Options: all that a channel is given is its address"
    if hasattr(module, "check"):
        yield from problems_of_call(module, "check", ("address",))
    if module.__name__.rpartition(".")[2] in ("email", "webhook"):
        yield "a built-in alert channel has this name: rename the plugin"


REGISTRY.register(
    kind_of_parts(ALERT_CHANNEL, "rftweb.alert_channels", "send", ("message", "address"), _problems)
)
