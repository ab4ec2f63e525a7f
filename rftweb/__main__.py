"""The command line of rftweb: `rftweb`, `python -m rftweb`, or manage.py in a checkout."""

import os
import sys

from rftweb.environment import setting_errors_end_the_process

INTERRUPTED = 130  # as a shell says of a program that Ctrl-C ended


def main() -> None:
    """Run the command that the arguments name."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        with setting_errors_end_the_process():
            execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) is not None:
            raise  # the database answered
        print(f"PostgreSQL does not answer: {str(error).strip()}", file=sys.stderr)
        print(
            "Start the embedded one with `manage.py up` or `manage.py demo`, or check"
            " DATABASE_URL.",
            file=sys.stderr,
        )
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
