"""Pictures from the database for workers that show them to policies: bytes in our own encoding."""

from collections.abc import Iterable

from apps.tasksets.models import Picture
from workers.vision.image_processor import Unreadable


def load_pngs(project_id: int, names: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of the project's pictures of these names (sha256): one statement.

    Raises Unreadable where one is not kept.
    """
    missing_names = set(names)
    if not missing_names:
        return {}
    rows = Picture.objects.filter(project=project_id, sha256__in=missing_names).values_list(
        "sha256", "png"
    )
    pngs = {name: bytes(png) for name, png in rows}
    for name in sorted(missing_names - pngs.keys()):
        raise Unreadable(f"the project has no image {name[:12]}…")
    return pngs
