"""Packages that Windrow uses only where they are installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from windrow.errors import UnsupportedError


def optional_package(module: str, what: str) -> Any:
    """The module; raises UnsupportedError if it cannot be imported. `what` is the call that needs it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise _broken(what, package, error) from error
        raise UnsupportedError(
            f"{what} needs the package {package}, which is not installed", remedy=f"pip install {package}"
        ) from None
    except ImportError as error:
        raise _broken(what, package, error) from error


def _broken(what: str, package: str, error: ImportError) -> UnsupportedError:
    return UnsupportedError(
        f"{what} needs the package {package}, which cannot be imported: {error}",
        remedy=f"pip install --force-reinstall {package}",
    )
