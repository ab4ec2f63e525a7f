"""A page as a screen reader reads it: the browser's accessibility tree, and keys to move in it."""

import re
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page

MAX_TABS = 400  # between two positions on one page


@dataclass(frozen=True)
class Heard:
    """An element as a screen reader announces it."""

    role: str
    name: str
    description: str = ""
    value: str = ""
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def is_checked(self) -> bool:
        return self.properties.get("checked") == "true"

    @property
    def is_invalid(self) -> bool:
        return self.properties.get("invalid") == "true"


class Listener:
    """A user with a screen reader and a keyboard, without a pointer or a view of the page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wire = page.context.new_cdp_session(page)
        self.wire.send("Accessibility.enable")

    def focused(self) -> Heard:
        """Return the focused element."""
        asked = self.wire.send("Runtime.evaluate", {"expression": "document.activeElement"})
        which = {"objectId": asked["result"]["objectId"], "fetchRelatives": False}
        return _heard(self.wire.send("Accessibility.getPartialAXTree", which)["nodes"][0])

    def everything(self) -> list[Heard]:
        """Return everything that is announced of the page, from beginning to end."""
        nodes = self.wire.send("Accessibility.getFullAXTree")["nodes"]
        return [_heard(node) for node in nodes if not node["ignored"]]

    def all_of(self, role: str) -> list[Heard]:
        return [heard for heard in self.everything() if heard.role == role]

    def go_to(self, role: str, name: str, key: str = "Tab") -> Heard:
        """Press Tab until an element with this role and a matching name has the focus."""
        met = []
        for _ in range(MAX_TABS):
            self.page.keyboard.press(key)
            heard = self.focused()
            if heard.role == role and re.search(name, heard.name):
                return heard
            met.append(f"{heard.role} {heard.name!r}")
        raise AssertionError(f"no {role} {name!r} among {', '.join(met)}")

    def type_over(self, text: str) -> None:
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)


def _heard(node: dict) -> Heard:
    told = {name: str(node.get(name, {}).get("value", "")) for name in ("name", "description")}
    properties = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
    value = str(node.get("value", {}).get("value", ""))
    role = node.get("role", {}).get("value", "")
    return Heard(role, told["name"], told["description"], value, properties)
