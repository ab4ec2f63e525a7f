"""Print our numbers for the cases in a file, as JSON by case id.

Usage: `python -m workers.algorithms.cases FILE.json`. FILE holds {"data": {name: inputs}, "cases":
[{"id", "group", "fn", "args", "dataset" | "inputs", "expected", ...}]}; our numbers have the
structure of "expected". A function or option that we do not have gives "unsupported"; input that
our functions refuse gives {"refused": why}. Needs neither a database nor Django's settings.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from workers.algorithms.cases import advantages, losses
from workers.algorithms.cases.names import Unsupported

GROUPS = losses.GROUPS | advantages.GROUPS
UNSUPPORTED = "unsupported"


def answer_case(case: dict[str, Any], data: dict[str, Any]) -> Any:
    """Return our numbers for one case, "unsupported", or {"refused": why} for an invalid input.

    Of `expected`, only the names are read.
    """
    if case.get("group") not in GROUPS:
        return UNSUPPORTED
    inputs = (
        data.get(case.get("dataset", ""), {})
        | case.get("inputs", {})
        | case.get("override", {})
        | case.get("extra_inputs", {})
    )
    try:
        numbers = GROUPS[case["group"]](case["fn"], dict(case.get("args") or {}), inputs)
    except Unsupported:
        return UNSUPPORTED
    except KeyError as error:
        return {"refused": f"the case has no input {error}"}
    except ValueError as error:
        return {"refused": str(error)}
    return restrict_names(numbers, case["expected"]) if "expected" in case else numbers


def restrict_names(result: Any, like: Any) -> Any:
    """Return `result` without the names that `like` does not have, at every depth."""
    if not isinstance(result, dict) or not isinstance(like, dict):
        return result
    return {
        name: restrict_names(value, like[name]) for name, value in result.items() if name in like
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.algorithms.cases", description=__doc__)
    parser.add_argument("file", type=Path, help="JSON file of test cases")
    read = json.loads(parser.parse_args(arguments).file.read_text())
    json.dump(
        {case["id"]: answer_case(case, read.get("data", {})) for case in read["cases"]},
        sys.stdout,
        indent=1,
    )
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
