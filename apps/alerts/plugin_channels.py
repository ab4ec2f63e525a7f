"""Alert channels of plugins: sent in a thread of its own, so that none holds up the others."""

import threading
from typing import Any

import apps.alerts.channel_kind  # noqa: F401  (registers the kind)
from apps.accounts.public_text import public_text
from apps.alerts.messages import Message
from apps.plugins.guarded_calls import guarded
from apps.plugins.kinds import ALERT_CHANNEL
from apps.plugins.loading import describe_error
from apps.plugins.registry import REGISTRY

CALL_S = 10.0
SENT = "sent"


class ChannelFailed(Exception):
    """Raised if a plugin could not send; the message says why."""


def channel_plugins() -> tuple[str, ...]:
    """Return the names of the plugins that can be used."""
    return REGISTRY.names(ALERT_CHANNEL)


def checked_by_plugin(name: str, address: str) -> str:
    """Return the address as the plugin's `check(address)` gives it. Raises ValueError."""
    check = getattr(REGISTRY.find(ALERT_CHANNEL, name).module, "check", None)
    if not address:
        raise ValueError("address: must not be empty")
    if check is None:
        return address
    try:
        return str(guarded(check)(address))
    except ValueError:
        raise
    except Exception as error:  # others' code
        raise ValueError(f"{name}: {type(error).__name__}: {public_text(error)}") from None


def sent_by_plugin(name: str, message: Message, address: str, seconds: float = CALL_S) -> str:
    """Send a message with the plugin's `send(message, address)`, and return its answer.

    Raises ChannelFailed, also after `seconds`: the call then continues, and its result is ignored.
    """
    try:
        send = REGISTRY.find(ALERT_CHANNEL, name).call
    except LookupError as missing:
        raise ChannelFailed(str(missing)) from None
    outcome: dict[str, Any] = {}

    def call() -> None:
        try:
            outcome["answer"] = send(message, address)
        except BaseException as error:  # others' code
            outcome["error"] = f"{public_text(describe_error(error))}"

    thread = threading.Thread(target=call, name=f"alert-channel-{name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if "error" in outcome:
        raise ChannelFailed(outcome["error"])
    if "answer" not in outcome:
        raise ChannelFailed(f"no answer within {seconds:g} s")
    return str(outcome["answer"] or SENT)
