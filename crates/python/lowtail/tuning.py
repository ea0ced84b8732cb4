"""Searches for a policy that reaches goals of latency at the least loss of work."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _lowtail
from ._lowtail import Problem, Recording, Scenario
from .predictions import recording_of, said_of
from .progress import Progress, shown

__all__ = ["Tuned", "problem", "tune"]


class Tuned:
    """What a search has found. ``data`` has all of it, as the JSON of ``lowtail tune --json`` does."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.data = data

    @property
    def points(self) -> List[Dict[str, Any]]:
        """Points that none is better than, by growing loss: what each changes, its figures, its policy."""
        return self.data["points"]

    @property
    def before(self) -> Dict[str, Any]:
        """Where nothing is changed."""
        return self.data["before"]

    @property
    def chosen(self) -> Optional[Dict[str, Any]]:
        """The point that reaches all goals and loses least; that of :attr:`before` if nothing has to be changed; None if none does."""
        number = self.data["chosen"]
        if number is None:
            return None
        return self.before if number == 0 else self.points[number - 1]

    @property
    def policy(self) -> Optional[str]:
        """The policy file of the chosen point."""
        chosen = self.chosen
        return chosen["policy"] if chosen else None

    @property
    def limits(self) -> List[str]:
        """What limits the goals that no point reaches."""
        return self.data["limits"]

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """Of each point: what it changes, the part of the work that is lost, whether it reaches all goals, and the figure of each goal."""
        rows = []
        for number, point in enumerate([self.before, *self.points]):
            row = {
                "point": number,
                "changes": point["changes"],
                "keys": point["keys"],
                "reached": point["reached"],
                "loss_ratio": point["loss_ratio"]["median"],
            }
            for goal, figure in zip(self.data["goals"], point["figures"]):
                row[goal_text(goal)] = (figure.get("latency_seconds") or figure.get("cpu_ratio"))["median"]
            rows.append(row)
        return rows

    def to_pandas(self):
        """:attr:`rows` as a ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(self.rows)

    def __repr__(self) -> str:
        reached = "none reaches all goals" if self.data["chosen"] is None else f"point {self.data['chosen']} is chosen"
        return f"<lowtail.Tuned: {len(self.points)} points, {reached}>"


def goal_text(goal: Any) -> str:
    """A goal of the JSON in words."""
    return goal if isinstance(goal, str) else json.dumps(goal)


def problem(
    of: Union[Recording, Scenario, str, "os.PathLike[str]"],
    goals: Union[str, Sequence[str]],
    *,
    cost: Optional[str] = None,
    case: Optional[str] = None,
    anyway: bool = False,
    kernel: Optional[str] = None,
    names: Optional[Mapping[str, str]] = None,
    recorded_policy: Union[None, str, "os.PathLike[str]"] = None,
    recorded_ratelimit: Optional[str] = None,
    recorded_slice: Optional[str] = None,
) -> Problem:
    """What :func:`tune` searches, for samplers of your own: its parameters, and what a point of them gives.

    >>> import optuna
    >>> web = lowtail.problem("host.bin", "web p99 <= 500us", cost="batch work")
    >>> def objective(trial):
    ...     point = [trial.suggest_categorical(name, [None, *range(len(levels))]) for name, levels, _ in web.parameters]
    ...     found = web.evaluate(point, seed=trial.number)
    ...     return (max(found[1]), found[2]) if found else (float("inf"), float("inf"))
    >>> optuna.create_study(directions=["minimize", "minimize"]).optimize(objective, n_trials=100)

    The arguments are those of :func:`tune`.
    """
    goals = [goals] if isinstance(goals, str) else list(goals)
    name = None if isinstance(of, (Recording, Scenario)) else os.fspath(of)
    known = any(name == experiment[0] for experiment in _lowtail.experiments()) and not os.path.exists(name) if name else False
    if isinstance(of, Scenario) or known or (name is not None and name.endswith(".toml")):
        scenario = of if isinstance(of, Scenario) else Scenario.load(of)
        return Problem.of_scenario(scenario, goals, case=case, cost=cost)
    said = said_of(kernel, names, recorded_policy, recorded_ratelimit, recorded_slice)
    return Problem.of_recording(recording_of(of), goals, said, cost=cost, anyway=anyway)


def tune(
    of: Union[Problem, Recording, Scenario, str, "os.PathLike[str]"],
    goals: Union[str, Sequence[str]] = (),
    *,
    seed: int = 1,
    seeds: int = 5,
    budget: Optional[int] = None,
    jobs: Optional[int] = None,
    max_time: Optional[float] = None,
    progress: Progress = None,
    **terms: Any,
) -> Tuned:
    """Search for a policy that reaches goals of latency at the least loss of work.

    :param of: a recording, a network scenario, the path of one, or a :class:`Problem`.
    :param goals: what is to be reached together, such as ``"web p99 <= 500us"`` or ``"batch cpu >= 60%"``.
    :param seed: seed of all that is drawn.
    :param seeds: runs by which each point that is shown is measured, of which none was looked at when it was chosen.
    :param budget: short runs of the search.
    :param jobs: threads; they change no figure.
    :param max_time: seconds after which the search ends; then the points depend on how fast this machine is.
    :param progress: as of :func:`run`.
    :param terms: ``cost`` (such as ``"batch work"``), ``case`` of a scenario, ``anyway``, and what a recording does not say of its host: ``kernel``,
        ``names``, ``recorded_policy``, ``recorded_ratelimit``, ``recorded_slice``, as of :func:`predict`.
    """
    searched = of if isinstance(of, Problem) else problem(of, goals, **terms)
    with shown(progress, "tuning") as tell:
        text = _lowtail.tune(
            searched, seed=seed, seeds=seeds, budget=budget, jobs=jobs, max_time=max_time, progress=tell
        )
    return Tuned(json.loads(text))
