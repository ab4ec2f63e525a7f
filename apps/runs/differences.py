"""Differences between two configurations, leaf by leaf.

A member of a list of sections is addressed by its name, a scorer by `scorer`: so
`rewards.math.weight` is one field, wherever the scorer stands in the list.
"""

from collections.abc import Mapping
from typing import Any

from apps.runs.changing import flat

NAMES = ("scorer", "name")  # the field that tells a member of such a list from the others


def leaves(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted field.

    In a list of sections, the field contains the name of the member, or its position if members
    have no names.
    """
    values: dict[str, Any] = {}
    for field, value in flat(dict(sections)).items():
        members = members_by_name(value)
        values |= (
            {f"{field}.{at}": leaf for at, leaf in flat(dict(members)).items()}
            if members
            else {field: value}
        )
    return values


def members_by_name(value: Any) -> dict[str, dict[str, Any]]:
    """Return the members of a list of sections, by name; empty for any other value."""
    if not isinstance(value, list) or not all(isinstance(member, dict) for member in value):
        return {}
    for name in NAMES:
        by_name = {str(member.get(name)): member for member in value if member.get(name)}
        if len(by_name) == len(value):
            return by_name
    return {str(place): member for place, member in enumerate(value)}


def undo_change(
    before: Mapping[str, Any], after: Mapping[str, Any], now: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that undo a change from `before` to `after`, for `Run.change_config`.

    `now`: the current configuration. In a list of sections, only the members that the change
    touched are restored, and in them only the fields that it touched: later changes to the rest are
    kept.
    """
    was = flat(dict(before))
    becomes = flat(dict(after))
    stands = flat(dict(now))
    changes: dict[str, Any] = {}
    for field, value in was.items():
        if field in becomes and becomes[field] == value:
            continue
        *path, last = field.split(".")
        place = changes
        for step in path:
            place = place.setdefault(step, {})
        place[last] = _list_put_back(value, becomes.get(field), stands.get(field))
    return changes


def _list_put_back(before: Any, after: Any, now: Any) -> Any:
    """Return a list of sections without what the change did to it.

    Any other value as it was before.
    """
    was = members_by_name(before)
    becomes = members_by_name(after)
    stands = members_by_name(now)
    if not (was and becomes and stands):
        return before
    for name in {**was, **becomes}:
        if name not in was:
            stands.pop(name, None)
        elif name not in becomes or name not in stands:
            stands[name] = was[name]
        else:
            stands[name] = {**stands[name], **_changed_fields(was[name], becomes[name])}
    return list(stands.values())


def _changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in before.items() if after.get(field) != value}
