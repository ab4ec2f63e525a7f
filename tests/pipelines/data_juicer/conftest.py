"""A stand-in for the interpreter with the data-juicer package: real processes that answer, die,
hang and print invalid output.
"""

import sys
import textwrap

import pytest

from apps.pipelines.data_juicer.process import FILTERS

# Keeps texts of more than four characters; `poisoned` is its code for a text with "poison".
ANSWERS = """
import json, os, sys, time
print("{{}}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    texts = asked["texts"]
    if any("poison" in text for text in texts):
        {poisoned}
    said = [[len(text) > 4, {{"len": len(text)}}] for text in texts]
    print(json.dumps({{"results": said}}), flush=True)
"""


@pytest.fixture
def interpreter(settings, tmp_path):
    """Run this program instead of the package's interpreter."""
    FILTERS.stop()

    def stand_in(program: str) -> None:
        (tmp_path / "program.py").write_text(textwrap.dedent(program))
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "program.py"}"\n')
        python.chmod(0o755)
        settings.DATA_JUICER_PYTHON = python

    yield stand_in
    FILTERS.stop()


@pytest.fixture
def answers(interpreter) -> None:
    """Run a program that answers, and exits when a text contains "poison"."""
    interpreter(ANSWERS.format(poisoned="os._exit(3)"))
