"""What Windrow logs: events of the logger `windrow`, each with a sentence for people and fields for programs.

A record of the log has `event` (a name such as `micro_batch`) and `fields` (a dictionary). `JsonLines` writes both as
one JSON object per line. docs/operations.md lists the events.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any

LOGGER = logging.getLogger("windrow")


def log_event(event: str, message: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event. `message` is formatted with the fields: "stream '{stream}' is open"."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", message.format(**fields), extra={"event": event, "fields": fields}, stacklevel=2)


def logs_events() -> bool:
    """Whether anybody wants events; ask before computing costly fields."""
    return LOGGER.isEnabledFor(logging.INFO)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, event, message, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {"time": at.isoformat(timespec="milliseconds"), "level": record.levelname.lower()}
        line["event"] = getattr(record, "event", "message")
        line["message"] = record.getMessage()
        line |= {name: value for name, value in getattr(record, "fields", {}).items() if name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def quieten_py4j() -> None:
    """Hide the chatter of Py4J, which logs every call of `foreachBatch` at INFO. A level that the user set stays."""
    logger = logging.getLogger("py4j")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
