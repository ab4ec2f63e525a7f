"""Build a warmed tiny policy: `python -m workers.policies.build sort|tone --out FOLDER [--seed N]`.

The folder inside `--out` is named by a key of everything the build depends on, so a second call
finds it and builds nothing. Progress goes to standard error; the one line on standard output is
JSON.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

POLICIES = ("sort", "tone")  # the keys of workers.policies.recipes


def main() -> int:
    """Run the command; return 0 when the policy exists and is verified."""
    options = _options()
    started = time.monotonic()
    # Here, because torch and transformers take seconds to import: a usage error comes before.
    import torch

    from workers.policies import recipes
    from workers.policies.building import ensure

    torch.set_num_threads(1)  # sums depend on the number of threads, and equal builds must be equal
    folder, manifest, built = ensure(
        recipes.find_recipe(options.policy), Path(options.out), options.seed, _print
    )
    summary = {
        "policy": options.policy,
        "folder": str(folder.resolve()),
        "fingerprint": manifest.fingerprint,
        "built": built,
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(summary))
    return 0


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", choices=POLICIES)
    parser.add_argument("--out", required=True, help="folder that holds built policies")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # an interrupted build leaves nothing that is worth a traceback
    sys.exit(main())
