"""Build an untrained policy of a given size for benchmarks.

Run it as `python bench/sized_policy.py FOLDER --parameters 5e8`. Weights are stored in bfloat16 if
there is a GPU, as real ones are, else in float32. The last line is JSON.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workers.policies.tiny import build_sized  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parameters", type=float, default=5e8)
    options = parser.parse_args()
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    manifest = build_sized(options.folder, options.parameters, dtype=dtype)
    parameters = sum(math.prod(spec.shape) for spec in manifest.tensors.values())
    print(
        json.dumps(
            {
                "folder": str(options.folder.resolve()),
                "parameters": parameters,
                "fingerprint": manifest.fingerprint,
            }
        )
    )


if __name__ == "__main__":
    main()
