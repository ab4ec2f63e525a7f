"""Average two sets of weights: `python -m workers.policies.average FOLDER FOLDER --out FOLDER`."""

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Run the command; return 0 when the sealed folder exists."""
    options = _options()
    # Here, because torch and transformers take seconds to import: a usage error comes before.
    from transformers.utils import logging as transformers_logging

    from apps.policies.manifest import DamagedWeights
    from workers.policies.averaging import average_weights

    transformers_logging.disable_progress_bar()
    try:
        average_weights(options.first, options.second, options.out, options.share)
    except (DamagedWeights, OSError, ValueError) as error:
        print(str(error), file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument(
        "--share",
        type=float,
        default=0.5,
        help=("Weight of the first model; the second gets the rest."),
    )
    options = parser.parse_args()
    if not 0 <= options.share <= 1:
        parser.error(f"--share must be from 0 to 1, not {options.share}")
    return options


if __name__ == "__main__":
    sys.exit(main())
