"""All measurements that want a GPU, in one command, with nothing to download.

    python bench/gpu/run.py [--wheels FOLDER] [--parameters 5e8] [--steps 20]

--wheels installs what `bench/gpu/wheels.py` fetched, beside (not into) this Python. Then an untrained policy of that
size goes through bench/loop.py (the whole stack on embedded services, against one bare process), rollout_overhead.py
and weight_sync.py. vLLM samples where it is installed and sees a GPU, else transformers. Progress goes to standard
error; the last line is JSON: each bench's own line under its name, null (and exit code 1) for one that failed. The same
command runs without a GPU, for the path and not for the figures.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
FACTS = """
import importlib.metadata as m, importlib.util as u, json, platform, torch
gpu = torch.cuda.is_available()
print(json.dumps({"device": torch.cuda.get_device_name() if gpu else "cpu",
                  "cuda": torch.version.cuda, "python": platform.python_version(),
                  **{name: m.version(name) for name in ("torch", "transformers", "trl")}, "vllm": bool(u.find_spec("vllm"))}))
"""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="rftweb-site-") as site:
        environment = dict(os.environ)
        if options.wheels:
            os.chmod(site, 0o755)  # PostgreSQL refuses to run as root: another account has to reach its programs
            install(options.wheels, site)
            environment["PYTHONPATH"] = os.pathsep.join(part for part in (site, os.environ.get("PYTHONPATH")) if part)
        figures = {name: last_json(command, environment) for name, command in commands(options).items()}
    print(json.dumps(figures))
    return int(None in figures.values())


def commands(options: argparse.Namespace) -> dict[str, list[str]]:
    size = ["--parameters", str(options.parameters)]
    return {
        "machine": ["-c", FACTS],
        "weight_sync": [str(BENCH / "weight_sync.py"), *size],
        "rollout_overhead": [
            str(BENCH / "rollout_overhead.py"),
            *size,
            "--concurrent",
            str(options.concurrent),
            "--tokens",
            str(options.tokens),
        ],
        "loop": [str(BENCH / "loop.py"), *size, "--steps", str(options.steps), "--port", str(options.port)],
    }


def install(wheels: Path, site: str) -> None:
    """Into a folder of its own: the machine's environment stays as it is."""
    found = sorted(map(str, wheels.glob("*.whl")))
    if not found:
        raise SystemExit(f"{wheels} holds no wheels: fetch them with bench/gpu/wheels.py on a machine with a network")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--no-cache-dir",
        "--target",
        site,
    ]
    subprocess.run([*command, *found], check=True)


def last_json(command: list[str], environment: dict[str, str]) -> dict | None:
    """The last line of its standard output; None when it failed, so that the others are still measured."""
    done = subprocess.run(
        [sys.executable, *command], cwd=BENCH.parent, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    lines = done.stdout.splitlines()
    print(*lines[:-1], sep="\n", file=sys.stderr, flush=True)
    return json.loads(lines[-1]) if done.returncode == 0 and lines else None


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, help="folder filled by bench/gpu/wheels.py")
    parser.add_argument("--parameters", type=float, default=5e8)
    parser.add_argument("--steps", type=int, default=20, help="optimiser updates of the loop")
    parser.add_argument("--concurrent", type=int, default=128, help="rollouts in flight of rollout_overhead")
    parser.add_argument("--tokens", type=int, default=256, help="longest answer of rollout_overhead")
    parser.add_argument("--port", type=int, default=8321)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
