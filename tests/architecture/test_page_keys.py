"""Keys of a whole page have one listener, so its exceptions for dialogs, menus and text fields
hold for every page.
"""

import re
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "static" / "js"
WHOLE_PAGE = re.compile(
    r"\b(?:document|window|body|documentElement)\.addEventListener\(\s*[\"']key(?:down|up|press)"
)


def test_only_one_script_listens_for_keys_on_the_whole_page():
    listening = [
        path.relative_to(SCRIPTS).as_posix()
        for path in SCRIPTS.rglob("*.js")
        if WHOLE_PAGE.search(path.read_text())
    ]
    assert listening == ["keys.js"]
