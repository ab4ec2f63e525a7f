"""Pictures in files beside an imported one: inside its folder, never outside it."""

from pathlib import Path

from apps.accounts.contained_paths import UnsafePath, contained_file
from apps.tasksets.messages import ReadPath
from apps.tasksets.pictures import MAX_BYTES, BadPicture


def picture_reader(file: Path) -> ReadPath:
    """Return a function that reads a picture by its path relative to the folder of `file`.

    It raises BadPicture, for example for a link that leads out of the folder.
    """
    folder = file.parent.resolve()

    def read(name: str) -> bytes:
        try:
            with contained_file(folder, name).open("rb") as stream:
                return stream.read(MAX_BYTES + 1)
        except UnsafePath as error:
            raise BadPicture(str(error)) from None
        except OSError:
            raise BadPicture(f"{name[:100]!r} cannot be read") from None

    return read
