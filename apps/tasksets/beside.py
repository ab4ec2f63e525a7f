"""Pictures in files beside an imported one: inside its folder, never outside it."""

from pathlib import Path

from apps.tasksets.messages import ReadPath
from apps.tasksets.pictures import MOST_BYTES, BadPicture


def beside(file: Path) -> ReadPath:
    """What reads a picture by its path relative to the folder of `file`; raises BadPicture, as for a link that leads out."""
    folder = file.parent.resolve()

    def read(name: str) -> bytes:
        try:
            found = (folder / name).resolve(strict=True)
            if not found.is_relative_to(folder):
                raise BadPicture(f"{name[:100]!r} is not in the folder of the file")
            if not found.is_file():
                raise BadPicture(f"{name[:100]!r} is no file")
            with found.open("rb") as stream:
                return stream.read(MOST_BYTES + 1)
        except (OSError, ValueError, RuntimeError) as error:
            if isinstance(error, BadPicture):
                raise
            raise BadPicture(f"there is no file {name[:100]!r} that can be read") from None

    return read
