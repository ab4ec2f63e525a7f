"""A sealed policy as a GGUF file: `python -m workers.exporting.gguf_file SOURCE --out FOLDER …`."""

import argparse
import json
import os
import sys
from pathlib import Path

from apps.policies.as_gguf import KINDS, NotAsGguf
from apps.policies.manifest import DamagedWeights
from workers.processes import die_with_parent


def main() -> int:
    """Run the command; return 0 when the file and the Modelfile lie in the folder."""
    die_with_parent(os.getppid())
    options = _options()
    # Here, because torch and transformers take seconds to import: a usage error comes before.
    from transformers.utils import logging as transformers_logging

    from workers.exporting.gguf_writing import GgufDescription, write_gguf

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    description = GgufDescription(**json.loads(options.description))
    try:
        write_gguf(options.source, options.out, options.form, description)
    except (DamagedWeights, NotAsGguf, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", required=True, type=Path, help="an existing model folder")
    parser.add_argument("--form", required=True, choices=list(KINDS))
    parser.add_argument(
        "--description",
        required=True,
        help="metadata as JSON: name, about, temperature, licence",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
