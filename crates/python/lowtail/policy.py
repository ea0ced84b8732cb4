"""Policies: what ``lowtail host apply`` takes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Union

from . import _lowtail

__all__ = ["schema", "validate"]


def validate(policy: Union[str, "os.PathLike[str]"]) -> None:
    """Check a policy: a path, or its text.

    :raises PolicyError: with line and column of what is wrong, and what would be right.
    """
    if isinstance(policy, os.PathLike) or ("\n" not in policy and "=" not in policy and policy):
        path = Path(policy)
        _lowtail.validate_policy(path.read_text(encoding="utf-8"), name=str(path))
    else:
        _lowtail.validate_policy(policy)


def schema() -> Any:
    """The JSON schema of policies, as ``lowtail host schema`` prints it."""
    return json.loads(_lowtail.policy_schema())
