"""Structured logs: one line per unit of work, with ids; JSON in production, text on a terminal."""

import logging.config
import re

import structlog
from structlog.typing import EventDict, Processor

from rftweb.client_errors import SECURITY_LOGGERS, ClientErrors


def name_run(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace a run by its slug, which people know, and its unique id."""
    run = event.get("run")
    if run is not None and hasattr(run, "slug"):
        event.update(run=run.slug, run_id=run.pk)
    return event


SECRET = re.compile(r"rft_(?:usr|inv)_[A-Za-z0-9_-]+")


def hide_secrets(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace API tokens and invitation links in texts: paths of refused requests contain links."""
    for key, value in event.items():
        if isinstance(value, str) and "rft_" in value:
            event[key] = SECRET.sub("[secret]", value)
    return event


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    name_run,
    hide_secrets,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def configure(options: dict) -> None:
    """Set up logging and structlog; `options` are {"format": "console" | "json", "level": name}."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(_stdlib(options["format"], options["level"]))


def _stdlib(kind: str, level: str) -> dict:
    renderer = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if kind == "json"
        # With `rich` installed its tracebacks would be the default: they take two seconds of
        # processor time each, and show every local value.
        else [
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *renderer,
                ],
            }
        },
        "filters": {"client_errors": {"()": ClientErrors}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "uvicorn.access": {"level": "WARNING"},
            "django.request": {"filters": ["client_errors"]},
            **{name: {"filters": ["client_errors"]} for name in SECURITY_LOGGERS},
            "httpx": {"level": "WARNING"},
            "weasyprint": {"propagate": False},  # it logs each page, and each unknown word in one
            "fontTools": {"level": "WARNING"},
        },
    }
