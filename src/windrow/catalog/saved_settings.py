"""The settings that the catalog keeps."""

from __future__ import annotations

from windrow.catalog.store import Catalog


def saved_settings(catalog: Catalog) -> dict[str, str]:
    """The stored settings, as text."""
    return {row["name"]: row["value"] for row in catalog.rows("SELECT name, value FROM settings")}
