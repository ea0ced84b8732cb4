"""What lowtail raises.

Each error says in words what is wrong, where, and what would be right. ``file``, ``line`` and ``column`` say the place, if there is one;
lines and columns count from 1.
"""

from __future__ import annotations

from typing import Optional

__all__ = ["ArgumentError", "Error", "PolicyError", "RecordingError", "ScenarioError", "SimulatorError"]


class Error(Exception):
    """All errors of lowtail but those of the operating system, which are ``OSError``."""

    file: Optional[str]
    line: Optional[int]
    column: Optional[int]

    def __init__(
        self,
        message: str,
        file: Optional[str] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column

    def __reduce__(self):  # Exceptions come back from other processes.
        return type(self), (str(self), self.file, self.line, self.column)


class ScenarioError(Error, ValueError):
    """A scenario is wrong, or has no such case."""


class RecordingError(Error, ValueError):
    """A recording is damaged, of another kind, or cannot be simulated."""


class PolicyError(Error, ValueError):
    """A policy is wrong."""


class ArgumentError(Error, ValueError):
    """An argument does not fit what it is about: no VM of that name, no such scheduler."""


class SimulatorError(Error, RuntimeError):
    """A check inside the simulator failed: a bug of lowtail's, with the case and the seed that repeat it."""
