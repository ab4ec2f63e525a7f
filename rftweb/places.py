"""Where the code and its files are: in a checkout, or in an installed package."""

import os
import sys
from pathlib import Path

CODE = Path(__file__).resolve().parent.parent  # the folder of the packages apps, rftweb, workers
IS_CHECKOUT = (CODE / "manage.py").is_file()
# templates/, static/, docs/, examples/ and requirements/; setup.py puts them into the wheel.
FILES = CODE if IS_CHECKOUT else CODE / "rftweb" / "files"
# What starts a command in another process, before the command's name.
PROGRAM: tuple[str, ...] = (sys.executable, str(CODE / "manage.py"))
if not IS_CHECKOUT:
    PROGRAM = (sys.executable, "-m", "rftweb")


def default_data_folder() -> Path:
    """Return where data lies if RFTWEB_VAR does not say: one place for all commands.

    A checkout has it in `var/`; an installed package in the user's folder for data.
    """
    if IS_CHECKOUT:
        return CODE / "var"
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data else Path.home() / ".local" / "share") / "rftweb"
