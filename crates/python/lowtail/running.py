"""Runs of scenarios."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Sequence, Union

from . import _lowtail
from ._lowtail import Outcome, Scenario
from .progress import Progress, shown

#: What can be run: a scenario, the name of an experiment, the path of a scenario file, or a dict with the keys of one.
Runnable = Union[Scenario, str, "os.PathLike[str]", Mapping[str, Any]]


def scenario_of(what: Runnable, values: Optional[Mapping[str, Any]] = None) -> Scenario:
    """The scenario that ``what`` says, with ``values`` in place of its own."""
    values = dict(values or {})
    if isinstance(what, Scenario):
        return what.with_values(values) if values else what
    if isinstance(what, Mapping):
        scenario = Scenario(dict(what))
        return scenario.with_values(values) if values else scenario
    return Scenario.load(what, set=values)


def dotted(overrides: Mapping[str, Any]) -> dict:
    """Keywords as keys of a scenario file: ``host__pcpus`` is ``host.pcpus``."""
    return {key.replace("__", "."): value for key, value in overrides.items()}


def run(
    scenario: Runnable,
    seed: Optional[int] = None,
    seeds: Optional[int] = None,
    jobs: Optional[int] = None,
    *,
    full: bool = False,
    cases: Sequence[str] = (),
    set: Optional[Mapping[str, Any]] = None,
    record: int = 0,
    completions: bool = False,
    blame: bool = False,
    progress: Progress = None,
    **overrides: Any,
) -> Outcome:
    """Run a scenario, and judge its claims.

    :param scenario: a :class:`Scenario`, the name of an experiment (:func:`experiments`), the path of a file, or a dict.
    :param seed: seed in place of the file's; the same seed gives the same figures, bit by bit, with any number of jobs.
    :param seeds: run each case by so many seeds in a row, and give means with their 95 % confidence intervals.
    :param jobs: how many cases run at the same time; as many as there are CPUs if it is not said.
    :param full: the longer form: more samples, steadier tails.
    :param cases: names of the cases to run; all if there are none.
    :param set: values in place of the file's, by dotted key: ``{"host.pcpus": 4, "vm.web.count": 2}``.
    :param record: how many records of each case's schedule to keep, for ``outcome.schedules``.
    :param completions: keep when each transfer of a list was complete, for ``outcome.completions``.
    :param blame: find out whose bytes were in front of whose packets.
    :param progress: ``None``: a bar in a notebook, if tqdm is there; ``True``, ``False``, or what is called with (done, all).
    :param overrides: more values, with ``__`` for the points of their keys: ``host__pcpus=4``.
    :raises ScenarioError: with file, line and column of what is wrong.
    """
    chosen = scenario_of(scenario, {**(set or {}), **dotted(overrides)})
    with shown(progress, chosen.name) as tell:
        return _lowtail.run(
            chosen,
            seed=seed,
            seeds=seeds,
            jobs=jobs,
            full=full,
            cases=list(cases),
            record=record,
            completions=completions,
            blame=blame,
            progress=tell,
        )
