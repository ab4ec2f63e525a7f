"""Pictures out of the database, for stations that show them to policies: plain bytes, in our own encoding."""

from collections.abc import Iterable

from apps.tasksets.models import Picture
from workers.vision.eyes import Unreadable


def pngs_of(project_id: int, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of the project's pictures of these names (sha256): one statement. Raises Unreadable where one is not kept."""
    wanted = set(names)
    if not wanted:
        return {}
    rows = Picture.objects.filter(project=project_id, sha256__in=wanted).values_list("sha256", "png")
    found = {name: bytes(png) for name, png in rows}
    for name in sorted(wanted - found.keys()):
        raise Unreadable(f"the project keeps no picture {name[:12]}…")
    return found
