"""Checks of plugins that are one function: as rftweb calls it, and against its contract."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from apps.alerts.messages import TEST, Message
from apps.alerts.plugin_channels import ChannelFailed, checked_by_plugin, sent_by_plugin
from apps.feedback.rater_model.learner import Learner, ValuedReply
from apps.feedback.rater_model.plugins import FittedPlugin, fitted_for
from apps.feedback.rater_model.reading import NUMBERS, ReplyFeatures, split_words_and_marks
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.plugin_advantages import advantages_by_plugin
from apps.plugins import kinds
from apps.plugins.registry import REGISTRY
from apps.runs.algorithms.advantages import PluginAdvantage
from apps.runs.people import RaterModel
from apps.tasksets.sources.plugins import SourceFailed, lines_from_plugin
from rftweb.testing.failures import PluginFailed, find_plugin, open_plugin, require_none

MESSAGE = Message(
    subject="Test: alerts of project", words=TEST, todo="", link="", body={"kind": "test"}
)


def check_advantage(
    plugin: Path | str, rewards: Sequence[float], options: Mapping[str, Any] | None = None
) -> list[float] | None:
    """Return the advantages of a group with these rewards, None for a group that is dropped.

    Raises PluginFailed unless they are finite numbers, the same each time, and the rewards stay as
    they are.
    """
    with open_plugin(plugin) as name:
        find_plugin(partial(REGISTRY.find, kinds.ADVANTAGE), name)
        section = PluginAdvantage(plugin=name, options=dict(options or {}))
        try:
            first = advantages_by_plugin(section, rewards)
            again = advantages_by_plugin(section, rewards)
        except OperatorFailed as failure:
            raise PluginFailed(name, [str(failure)]) from None
    require_none(name, [] if first == again else ["gives other numbers for the same rewards"])
    return first


def check_dataset_source(
    plugin: Path | str, place: str, options: Mapping[str, Any] | None = None
) -> list[dict]:
    """Return the rows of a place. Raises PluginFailed unless they are JSON, and the same again."""
    with open_plugin(plugin) as name:
        find_plugin(partial(REGISTRY.find, kinds.DATASET_SOURCE), name)
        try:
            first, again = (list(lines_from_plugin(name, place, options or {})) for _ in range(2))
        except SourceFailed as failure:
            raise PluginFailed(name, [str(failure)]) from None
    require_none(name, [] if first == again else ["gives other rows when it is read again"])
    return [json.loads(line) for line in first]


def check_alert_channel(plugin: Path | str, address: str) -> str:
    """Send a test message to an address, and return the channel's answer. Raises PluginFailed."""
    with open_plugin(plugin) as name:
        find_plugin(partial(REGISTRY.find, kinds.ALERT_CHANNEL), name)
        try:
            return sent_by_plugin(name, MESSAGE, checked_by_plugin(name, address))
        except (ValueError, ChannelFailed) as failure:
            raise PluginFailed(name, [str(failure)]) from None


def check_rater_model(
    plugin: Path | str,
    rated: Mapping[str, float],
    replies: Sequence[str],
    options: Mapping[str, Any] | None = None,
) -> list[tuple[float, float]]:
    """Return mean and deviation of each reply, predicted from ratings of other replies.

    `rated`: values from 0 to 1 by reply. Raises PluginFailed unless they are finite numbers, and
    deviations not below 0.
    """
    learner = Learner()
    for text, value in rated.items():
        learner.learn(ValuedReply(_reply_features(text), value, 1))
    with open_plugin(plugin) as name:
        find_plugin(partial(REGISTRY.find, kinds.RATER_MODEL), name)
        section = RaterModel(kind="plugin", plugin=name, options=dict(options or {}))
        fit = fitted_for(section, learner)
        assert isinstance(fit, FittedPlugin)  # as the section names a plugin
        require_none(name, [fit.failed] if fit.failed else [])
        means, deviations = fit.predict([_reply_features(text) for text in replies])
    return [
        (float(mean), float(deviation)) for mean, deviation in zip(means, deviations, strict=True)
    ]


def _reply_features(text: str) -> ReplyFeatures:
    return ReplyFeatures(
        words=frozenset(split_words_and_marks(text)), numbers=(0.0,) * len(NUMBERS)
    )
