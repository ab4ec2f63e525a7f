"""Rate in place of people, over the REST API, in runs that have `people.simulated` switched on."""

import json
import os
import re
import signal
import threading
import urllib.error
import urllib.request
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, connection

from apps.accounts.models import User
from apps.feedback.simulated import (
    Patience,
    account,
    decision,
    due_claims,
    due_ratings,
    fresh_token,
)
from rftweb.number_arguments import number_between

log = structlog.get_logger(__name__)
RATINGS = "/api/v1/ratings/"
CLAIM = "/api/v1/rating-queue/claim/"
SLOT = "/api/v1/rating-slots/{}/"
WEB_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")
MAX_WAIT_S = 86_400
LOOK_S = 0.3
OUTAGE_S = 1.0
REQUEST_S = 20.0
MAX_CLAIMED = 20
CONFLICT = 409


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="address of the web process"
        )
        parser.add_argument(
            "--grace",
            type=number_between(0, MAX_WAIT_S),
            default=Patience.nobody_there,
            help="seconds to wait for people first",
        )
        parser.add_argument(
            "--patience",
            type=number_between(0, MAX_WAIT_S),
            default=Patience.somebody_there,
            help="seconds to wait while a person is rating",
        )

    def handle(self, **options: Any) -> None:
        if not WEB_ADDRESS.fullmatch(options["url"]):
            raise CommandError(
                f"--url: is {options['url']!r}; it must be an address such as http://127.0.0.1:8000"
            )
        end = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: end.set())
        rater = Rater(options["url"], Patience(options["grace"], options["patience"]))
        while not end.is_set():
            end.wait(rater.turn())


class Rater:
    """A rater that polls and posts; it waits for an unavailable database or web process."""

    def __init__(self, url: str, patience: Patience) -> None:
        self.site = url.rstrip("/")
        self.patience = patience
        self.user: User | None = None
        self.secret = ""
        self.is_away = False  # the web process is unavailable: logged once per outage
        self.refused: set[int] = set()  # rollouts that it may not rate: tried once, never again

    def turn(self) -> float:
        """Do what is due; return the seconds until the next poll."""
        try:
            user = self._introduce_once()
            ratings = [
                rating
                for rating in due_ratings(user, self.patience)
                if rating["rollout"] not in self.refused
            ]
            if ratings:
                self._send(ratings)
            for run, count in due_claims(user, self.patience).items():
                self._decide(run, min(count, MAX_CLAIMED))
            self.is_away = False
            return LOOK_S
        except urllib.error.HTTPError as error:
            if error.code == 401:
                self.secret = ""  # the database was recreated, or the token has expired
            log.warning(
                "ratings_refused",
                status=error.code,
                answer=error.read(500).decode(errors="replace"),
            )
        except (urllib.error.URLError, OSError) as error:
            if not self.is_away:
                log.warning("web_unavailable", error=str(error))
            self.is_away = True
        except (DatabaseError, InterfaceError) as error:
            log.warning("database_unavailable", error=str(error).strip())
            connection.close()
        return OUTAGE_S

    def _send(self, ratings: list[dict[str, Any]]) -> None:
        results = self._post(RATINGS, {"ratings": ratings})["results"]
        refused = [
            (rating, result)
            for rating, result in zip(ratings, results, strict=True)
            if result["status"] >= 400
        ]
        self.refused |= {rating["rollout"] for rating, _ in refused}
        log.info(
            "simulated_ratings_posted",
            taken=len(ratings) - len(refused),
            late=sum(result["is_late"] for result in results),
        )
        for rating, result in refused:
            # A person may have rated the reply just before: then the rating is not needed.
            write = log.info if result["status"] == CONFLICT else log.warning
            write(
                "simulated_rating_refused",
                rollout=rating["rollout"],
                status=result["status"],
                detail=result["detail"],
            )

    def _decide(self, run: int, count: int) -> None:
        """Claim items of this run and decide them; skip those that it cannot judge, for people."""
        for item in self._post(CLAIM, {"run": run, "count": count})["items"]:
            slot = SLOT.format(item["slot"])
            answer = decision(item)
            try:
                if answer is None:
                    self._post(
                        slot + "skip/", {"fence": item["fence"], "reason": "no rule for this form"}
                    )
                else:
                    self._post(slot, answer)
            except urllib.error.HTTPError as error:
                if error.code != CONFLICT:  # leased by somebody else, or no longer open
                    raise
                log.info(
                    "simulated_decision_refused",
                    slot=item["slot"],
                    answer=error.read(500).decode(errors="replace"),
                )

    def _post(self, path: str, document: dict[str, object]) -> dict:
        return post(self.site + path, self.secret, document)

    def _introduce_once(self) -> User:
        """Return the rater's account; make its token unless it has one."""
        if self.user is None or not self.secret:
            self.user = account()
            self.secret = fresh_token(self.user)
            say_ready()
        return self.user


def post(address: str, secret: str, document: dict[str, object]) -> dict:
    """Send a document as any client would; return the response.

    Raises HTTPError, and URLError if there is no response.
    """
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(document).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
        return json.loads(answer.read() or b"{}")


def say_ready() -> None:
    """Tell the supervisor that the rater works."""
    if path := os.environ.get("RFTWEB_READY_FILE"):
        draft = Path(f"{path}.{os.getpid()}")
        draft.write_text(str(os.getpid()))
        draft.replace(path)
