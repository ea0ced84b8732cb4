"""The part of lowtail that is written in Rust."""

from os import PathLike
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union, final

__version__: str

PlainRow = Tuple[str, int, List[Tuple[str, float]], List[float], List[Tuple[float, float]], bool]

@final
class Scenario:
    """A scenario: hosts, VMs, networks and what is measured, in cases."""

    def __new__(cls, scenario: Dict[str, Any], *, name: str = "scenario.toml") -> Scenario: ...
    @staticmethod
    def load(name_or_path: Union[str, PathLike[str]], *, set: Optional[Mapping[str, Any]] = None) -> Scenario:
        """The experiment of the catalogue called so, or the scenario file at a path (it ends in ``.toml`` or has a ``/``)."""
    @staticmethod
    def from_toml(
        text: str,
        *,
        name: str = "scenario.toml",
        base: Union[None, str, PathLike[str]] = None,
        set: Optional[Mapping[str, Any]] = None,
    ) -> Scenario:
        """The scenario that a text of TOML says, called ``name`` in errors."""
    def with_values(self, set: Mapping[str, Any]) -> Scenario:
        """The same with other values in place of some of its own, by dotted key."""
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def seeds(self) -> int: ...
    @property
    def overrides(self) -> List[Tuple[str, str]]: ...
    def cases(self, *, full: bool = False) -> List[str]: ...
    def to_toml(self) -> str: ...

class Table:
    """A table of Arrow columns: ``pyarrow.table(t)``, ``polars.DataFrame(t)`` and DuckDB take it as it is."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> List[str]: ...
    def describe(self) -> List[Tuple[str, str, str]]:
        """Of each column its name, its unit (empty if it has none), and what it means."""
    def to_arrow(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

class Outcome:
    """What came of a run."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def seeds(self) -> int: ...
    @property
    def command(self) -> str:
        """The command that repeats it."""
    @property
    def holds(self) -> bool:
        """Whether every claim holds, but those that are known to be missed."""
    @property
    def rows(self) -> Table:
        """One row for each distribution of each case: latencies in seconds, all other figures in base units."""
    @property
    def claims(self) -> Table: ...
    @property
    def distributions(self) -> Table:
        """Of each row which share of its values is longer than what (seconds)."""
    @property
    def schedules(self) -> Table: ...
    @property
    def queues(self) -> Table: ...
    @property
    def completions(self) -> Table: ...
    def to_json(self) -> str: ...
    def to_html(self) -> str: ...

@final
class Recording:
    """A schedule recorded on a real host."""

    def __new__(
        cls, path: Union[str, PathLike[str]], *, cpu_hz: Optional[int] = None, by_run_state: bool = False
    ) -> Recording: ...
    @property
    def path(self) -> Path: ...
    def latency(self) -> Table:
        """Of each vCPU how long it waited and ran, in seconds."""
    def blame(self) -> Table:
        """Who ran while each vCPU waited, for how long, and why."""
    def pcpus(self) -> Table: ...
    def smt_siblings(self) -> Table: ...
    def events(self) -> Table: ...
    def to_dict(self) -> Dict[str, Any]: ...
    def info(self) -> Dict[str, Any]: ...

@final
class Problem:
    """What is searched: parameters of a policy, and what a choice of their levels gives."""

    @staticmethod
    def of_recording(
        recording: Recording,
        goals: List[str],
        said: Mapping[str, Any],
        *,
        cost: Optional[str] = None,
        anyway: bool = False,
    ) -> Problem: ...
    @staticmethod
    def of_scenario(
        scenario: Scenario, goals: List[str], *, case: Optional[str] = None, cost: Optional[str] = None
    ) -> Problem: ...
    @property
    def parameters(self) -> List[Tuple[str, List[str], bool]]:
        """Each parameter: its name, its levels, and whether they have an order."""
    @property
    def goals(self) -> List[str]: ...
    @property
    def cost(self) -> str: ...
    def starts(self) -> List[List[Optional[int]]]: ...
    def evaluate(
        self, point: Sequence[Optional[int]], *, seed: int = 0, whole: bool = True
    ) -> Optional[Tuple[List[float], List[float], float]]:
        """The figure of each goal (microseconds, or percent of a CPU), the part of its limit that each uses, and the part of the work that is lost."""
    def policy(self, point: Sequence[Optional[int]]) -> str: ...
    def describe(self, point: Sequence[Optional[int]]) -> str: ...

def experiments() -> List[Tuple[str, int, str]]:
    """The experiments of the catalogue: name, number of cases, title."""

def run(
    scenario: Scenario,
    *,
    seed: Optional[int] = None,
    seeds: Optional[int] = None,
    jobs: Optional[int] = None,
    full: bool = False,
    cases: Sequence[str] = (),
    record: int = 0,
    completions: bool = False,
    blame: bool = False,
    progress: Optional[Callable[[int, int], None]] = None,
) -> Outcome: ...
def run_piece(scenario: Scenario, case: str, seed: int, *, full: bool = False) -> List[PlainRow]: ...
def mean(
    scenario: Scenario, case: str, pieces: Sequence[Tuple[int, Sequence[PlainRow]]], *, full: bool = False
) -> List[PlainRow]: ...
def join(
    scenario: Scenario,
    pieces: Sequence[Tuple[str, int, Sequence[PlainRow]]],
    *,
    seed: Optional[int] = None,
    seeds: Optional[int] = None,
    full: bool = False,
    cases: Sequence[str] = (),
) -> Outcome: ...
def predict(
    recording: Recording,
    said: Mapping[str, Any],
    asked: Mapping[str, Any],
    *,
    seeds: int = 5,
    timers: Sequence[str] = (),
    arrivals: Sequence[str] = (),
    anyway: bool = False,
) -> str: ...
def tune(
    problem: Problem,
    *,
    seed: int = 1,
    seeds: int = 5,
    budget: Optional[int] = None,
    jobs: Optional[int] = None,
    max_time: Optional[float] = None,
    progress: Optional[Callable[[int, int], None]] = None,
) -> str: ...
def validate_policy(text: str, *, name: str = "policy.toml") -> None: ...
def policy_schema() -> str: ...
