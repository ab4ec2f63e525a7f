"""Output lines of child processes: what the supervisor shows, and what it writes to log files."""

import contextlib
import io
from pathlib import Path

import pytest

from rftweb.supervisor.output import Output

CHATTER = "2026-01-02T03:04:05Z [info     ] step_committed [workers.trainer.run_trainer] step=3"
STARTING = "2026-01-02 03:04:05.678 UTC [77] FATAL:  the database system is starting up"
TROUBLE = (
    "2026-01-02T03:04:05Z [warning  ] leases_lost [workers.explorer.loop] groups=2",
    "2026-01-02T03:04:05Z [error    ] engine_died [workers.explorer.loop]",
    '{"event": "engine_died", "level": "error", "logger": "workers.explorer.loop"}',
    "2026-01-02 03:04:05.678 UTC [77] FATAL:  password authentication failed",
)


@pytest.fixture
def terminal() -> io.StringIO:
    return io.StringIO()


def test_every_terminal_line_starts_with_the_process_name(tmp_path: Path, terminal: io.StringIO):
    Output(tmp_path, terminal=terminal).line("trainer", CHATTER)
    assert terminal.getvalue() == f"   trainer │ {CHATTER}\n"


@pytest.mark.parametrize("line", TROUBLE)
def test_quiet_terminal_still_shows_errors_and_warnings(
    tmp_path: Path, terminal: io.StringIO, line: str
):
    output = Output(tmp_path, quiet=True, terminal=terminal)
    output.line("explorer", CHATTER)
    output.line("explorer", STARTING)
    output.line("explorer", line)
    assert terminal.getvalue() == f"  explorer │ {line}\n"


def test_log_file_has_every_line_when_the_terminal_is_quiet(tmp_path: Path, terminal: io.StringIO):
    output = Output(tmp_path, quiet=True, terminal=terminal)
    output.line("trainer", CHATTER)
    output.close()
    assert (tmp_path / "trainer.log").read_text() == f"{CHATTER}\n"


def test_log_files_continue_when_the_terminal_is_closed(tmp_path: Path):
    terminal = io.StringIO()
    output = Output(tmp_path, terminal=terminal)
    terminal.close()
    output.line("web", "first")
    output.line("web", "second")
    output.close()
    assert (tmp_path / "web.log").read_text() == "first\nsecond\n"


def test_lines_go_on_when_the_disk_of_the_terminals_file_was_full(
    tmp_path: Path, terminal: io.StringIO
):
    output = Output(tmp_path, terminal=terminal)
    # Its last flush fails, too.
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:
        output.terminal = full
        output.line("web", "one")
        output.terminal = terminal
        output.line("web", "two")
    assert (tmp_path / "web.log").read_text() == "one\ntwo\n"
    assert terminal.getvalue() == "       web │ two\n"
