"""The engines that replay a log."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    AUTO = "auto"  # compiled where it can, and the log is not short
    HARNESS = "harness"  # event by event, for all schedulers
    COMPILED = "compiled"  # built-in schedulers on identical processors
