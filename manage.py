#!/usr/bin/env python3
"""Django's command line for rftweb."""

import os
import sys

INTERRUPTED = 130  # as a shell says of a program that Ctrl-C ended


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
