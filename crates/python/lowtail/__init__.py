"""lowtail: tail latency of virtual machines on shared hosts.

Simulate scenarios, read recorded schedules, predict what a change does to a host, and search for a policy:

>>> import lowtail
>>> outcome = lowtail.run("credit2-ratelimit", jobs=2)
>>> outcome.rows.to_pandas()[["case", "p50_seconds", "p99_seconds"]]

Times are in seconds, rates in bits per second, shares between 0 and 1, as in the JSON of the command. Figures are those of the command ``lowtail``,
which this package brings along, to the last bit.
"""

from __future__ import annotations

from . import errors, policy
from ._lowtail import Outcome, Problem, Recording, Scenario, Table, __version__, experiments
from .errors import ArgumentError, Error, PolicyError, RecordingError, ScenarioError, SimulatorError
from .predictions import Prediction, predict
from .running import run
from .tuning import Tuned, problem, tune

__all__ = [
    "ArgumentError",
    "Error",
    "Outcome",
    "PolicyError",
    "Prediction",
    "Problem",
    "Recording",
    "RecordingError",
    "Scenario",
    "ScenarioError",
    "SimulatorError",
    "Sweep",
    "Table",
    "Tuned",
    "__version__",
    "errors",
    "experiments",
    "plot",
    "policy",
    "predict",
    "problem",
    "read_recording",
    "run",
    "sweep",
    "tune",
]


def read_recording(path, *, cpu_hz=None, by_run_state=False) -> Recording:
    """The schedule in a file of ``lowtail host record``, ``perf sched record`` or xentrace.

    ``cpu_hz``: ticks per second of xentrace's counter, which is measured if it is not said. ``by_run_state``: count a wake-up that came
    while its vCPU was being switched out as a preemption, as tools do that go by run states alone.
    """
    return Recording(path, cpu_hz=cpu_hz, by_run_state=by_run_state)


def __getattr__(name):
    # What needs other libraries, or is seldom wanted, is imported when it is.
    if name == "plot":
        import importlib

        return importlib.import_module(".plot", __name__)
    if name in ("sweep", "Sweep"):
        from . import sweeping

        return getattr(sweeping, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
