#!/usr/bin/env python3
"""The command line of rftweb in a checkout; an installed package has the command `rftweb`."""

from rftweb.__main__ import main

if __name__ == "__main__":
    main()
