"""docs/sockets.md lists exactly the kinds of events that the code records."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_kind_of_event_is_documented():
    code = "\n".join(
        path.read_text() for folder in ("apps", "workers") for path in (ROOT / folder).rglob("*.py")
    )
    recorded = set(re.findall(r"topic\.record\(\s*\"(\w+)\"", code))
    table = (
        (ROOT / "docs" / "sockets.md").read_text().split("| kind | payload |")[1].split("\n\n")[0]
    )
    assert recorded == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
