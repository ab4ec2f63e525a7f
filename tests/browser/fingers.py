"""Touch gestures on a page in Chromium."""

from playwright.sync_api import Page


def touch(
    page: Page, selector: str, since: tuple[float, float], until: tuple[float, float]
) -> None:
    """Swipe across the first match, from and to these fractions of its width and height."""
    place = page.locator(selector).first
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    finger = page.context.new_cdp_session(page)
    finger.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    parts = (0.0, 0.25, 0.5, 0.75, 1.0)
    across = [box["x"] + box["width"] * (since[0] + (until[0] - since[0]) * part) for part in parts]
    down = [box["y"] + box["height"] * (since[1] + (until[1] - since[1]) * part) for part in parts]
    points = [{"x": x, "y": y} for x, y in zip(across, down, strict=True)]
    for kind, point in zip(("touchStart", *["touchMove"] * 4), points, strict=True):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
