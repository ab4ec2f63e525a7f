#!/usr/bin/env python3
"""Check every pinned package against the OSV database of known vulnerabilities.

    scripts/audit.py            (or `make audit`; needs the network)

It asks about what `make sbom` lists, Python packages and browser files, and sends names and
versions alone. The exit status is 0 if nothing is known, 1 if a package is vulnerable, and 2 if the
service cannot be asked: an audit that was not made is never taken for a clean one.
"""

import argparse
import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

from sbom import browser_components, python_components

SERVICE = "https://api.osv.dev"
AT_ONCE = 500  # packages; OSV takes 1,000
TIMEOUT_S = 60
VULNERABLE = 1
NOT_ASKED = 2


class QueryFailed(Exception):
    """Raised if the service did not answer as OSV does; the message says why."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--service", default=SERVICE, help="(default: %(default)s)")
    service = options.parse_args().service.rstrip("/")
    packages = [part["purl"] for part in (*python_components(), *browser_components())]
    try:
        vulnerable = list(vulnerabilities(service, packages))
    except QueryFailed as error:
        print(f"not audited: {service} {error}", file=sys.stderr)
        return NOT_ASKED
    for package, name in vulnerable:
        print(f"{package}: {name}, see https://osv.dev/vulnerability/{name}")
    affected = len({package for package, _ in vulnerable})
    print(f"{len(packages)} packages checked, {affected} with known vulnerabilities")
    return VULNERABLE if vulnerable else 0


def vulnerabilities(service: str, packages: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (package, vulnerability) as the service knows them. Raises QueryFailed."""
    waiting = [(package, "") for package in packages]
    while waiting:
        batch = waiting[:AT_ONCE]
        waiting = waiting[AT_ONCE:]
        for (package, _), result in zip(batch, _ask(service, batch), strict=True):
            for vulnerability in result.get("vulns", ()):
                yield package, vulnerability["id"]
            if token := result.get("next_page_token"):
                waiting.append((package, token))


def _ask(service: str, packages: list[tuple[str, str]]) -> list[dict]:
    queries = []
    for package, token in packages:
        query = {"package": {"purl": package}}
        if token:
            query["page_token"] = token
        queries.append(query)
    request = urllib.request.Request(
        f"{service}/v1/querybatch",
        json.dumps({"queries": queries}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            results = json.load(answer)["results"]
    except urllib.error.HTTPError as error:
        raise QueryFailed(f"answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise QueryFailed(f"cannot be reached: {reason}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise QueryFailed(f"answered no results as OSV does: {error!r}") from None
    if not isinstance(results, list) or len(results) != len(packages):
        raise QueryFailed(f"answered no results for {len(packages)} packages")
    return results


if __name__ == "__main__":
    sys.exit(main())
