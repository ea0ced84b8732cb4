"""Sweeps: a scenario with many values, each case by many seeds, on a pool of processes or on Dask."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import struct
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _lowtail
from ._lowtail import Outcome, Scenario
from .errors import ArgumentError
from .progress import Progress, shown
from .running import Runnable, scenario_of

__all__ = ["Sweep", "Target", "plan", "sweep"]

#: A point of a grid: a value for each key.
Point = Tuple[Tuple[str, Any], ...]
#: One case of one point by one seed.
Task = Tuple[int, str, int]
#: The rows of a task, as the extension gives them.
Rows = List[tuple]

#: Fewest seeds of a case before its confidence interval is believed.
SEEDS_MIN = 5
#: Scenarios that a worker keeps read.
KEPT = 64


def points(grid: Optional[Mapping[str, Sequence[Any]]]) -> List[Point]:
    """All points of a grid: each value of each key with each of the others. Without a grid there is one point, which changes nothing."""
    grid = grid or {}
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ArgumentError(f"grid: `{key}` has a list of values, such as [1, 2, 4]")
    return [tuple(zip(grid, values)) for values in itertools.product(*grid.values())]


_scenarios: "OrderedDict[Tuple[str, str, str], Scenario]" = OrderedDict()


def _derived(base: Scenario, point: Point) -> Scenario:
    """The scenario of a point. A worker reads each once."""
    key = (base.to_toml(), repr(base.overrides), repr(point))
    scenario = _scenarios.get(key)
    if scenario is None:
        scenario = base.with_values(dict(point)) if point else base
        _scenarios[key] = scenario
        while len(_scenarios) > KEPT:
            _scenarios.popitem(last=False)
    return scenario


def _work(base: Scenario, point: Point, case: str, seed: int, full: bool) -> Tuple[float, Rows]:
    """What a worker does: the seconds that the simulation took, and its rows."""
    scenario = _derived(base, point)
    begin = time.perf_counter()
    rows = _lowtail.run_piece(scenario, case, seed, full=full)
    return time.perf_counter() - begin, rows


@dataclass(frozen=True)
class Target:
    """How narrow the 95 % confidence interval of a figure shall be: half of it at most this part of the mean."""

    figure: str
    ratio: float
    #: The row, by its VM's name or its own; all rows of a case without it.
    row: Optional[str] = None

    @classmethod
    def parse(cls, text: "str | Target") -> "Target":
        """Of text such as ``p99 5%`` or, of one row, ``web p99 5%``."""
        if isinstance(text, Target):
            return text
        match = re.fullmatch(r"\s*(?:(\S.*?)\s+)?([\w.]+)\s+([0-9.]+)\s*%\s*", text)
        try:
            percent = float(match[3]) if match else 0.0
        except ValueError:
            percent = 0.0
        if not match or not 0 < percent < 1000:
            raise ArgumentError(f"ci: `{text}`: a figure and a part of its mean, such as `p99 5%` or `web p99 5%`")
        return cls(match[2], percent / 100, match[1])

    def of(self, name: str) -> bool:
        """Whether it is about the row of this name, which is that of its case or ends with its VM's."""
        return self.row is None or name == self.row or name.endswith("/" + self.row)

    def known(self, rows: Rows) -> None:
        """Refuses a figure or a row that a case does not have."""
        names = [name for name, *_ in rows]
        if not any(map(self.of, names)):
            raise ArgumentError(f"ci: no row `{self.row}`; there is {', '.join(names)}")
        figures = {figure for name, _, of, *_ in rows if self.of(name) for figure, _ in of}
        # A distribution without values has no figures.
        if figures and self.figure not in figures:
            raise ArgumentError(f"ci: no figure `{self.figure}`; there is {', '.join(sorted(figures))}")

    def seeds(self, means: Rows, n: int) -> int:
        """How many seeds a case with these means over ``n`` needs, as far as can be told from these: ``n`` if they are enough."""
        self.known(means)
        needed = n
        for name, _, figures, intervals, _, _ in means:
            for (figure, mean), half in zip(figures, intervals):
                if not self.of(name) or figure != self.figure or mean == 0 or half <= self.ratio * abs(mean):
                    continue
                # An interval becomes narrower with the root of the number.
                needed = max(needed, math.ceil(n * (half / (self.ratio * abs(mean))) ** 2))
        return needed


@dataclass
class Sweep:
    """What came of a sweep.

    ``outcomes`` has an :class:`Outcome` for each point and case, in the grid's order: pairs of a point's values and the outcome.
    """

    scenario: Scenario
    points: List[Point]
    cases: List[str]
    outcomes: List[Tuple[Dict[str, Any], Outcome]] = field(default_factory=list)
    #: Seconds that the simulations themselves took, summed over all workers.
    simulated_seconds: float = 0.0
    #: Seconds from begin to end.
    elapsed_seconds: float = 0.0
    #: How many pieces were run: one case by one seed each.
    pieces: int = 0
    _digest: str = ""

    def digest(self) -> str:
        """SHA-256 over the bits of all figures of all pieces: the same wherever and in whatever order they ran."""
        return self._digest

    def to_arrow(self):
        """The rows of all points as one ``pyarrow.Table``, with a column for each key of the grid."""
        import pyarrow

        tables = []
        for values, outcome in self.outcomes:
            table = pyarrow.table(outcome.rows)
            for key, value in values.items():
                table = table.append_column(key, pyarrow.array([value] * table.num_rows))
            tables.append(table)
        return pyarrow.concat_tables(tables, promote_options="default")

    def to_pandas(self):
        """The rows of all points as one ``pandas.DataFrame``, with a column for each key of the grid."""
        return self.to_arrow().to_pandas()

    def to_polars(self):
        """The rows of all points as one ``polars.DataFrame``, with a column for each key of the grid."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def write(self, directory: "str | os.PathLike[str]") -> None:
        """Write ``rows.parquet`` and ``claims.parquet`` into a directory."""
        import pyarrow
        import pyarrow.parquet

        os.makedirs(directory, exist_ok=True)
        claims = [pyarrow.table(outcome.claims) for _, outcome in self.outcomes]
        claims = pyarrow.concat_tables(claims, promote_options="default")
        for name, table in (("rows", self.to_arrow()), ("claims", claims)):
            path = os.path.join(directory, f"{name}.parquet")
            # Whole or not at all.
            pyarrow.parquet.write_table(table, path + ".part")
            os.replace(path + ".part", path)

    def __repr__(self) -> str:
        return f"<lowtail.Sweep of {self.scenario.name}: {len(self.points)} points, {self.pieces} pieces>"


def _bits(digest: "hashlib._Hash", task: Task, rows: Rows) -> None:
    """Adds the bits of a piece."""

    def text(word: str) -> None:
        word = word.encode()
        digest.update(struct.pack("<I", len(word)) + word)

    point, case, seed = task
    digest.update(struct.pack("<IQ", point, seed))
    text(case)
    for name, n, figures, _, tail, complete in rows:
        text(name)
        digest.update(struct.pack("<Q?I", n, complete, len(figures)))
        for figure, value in figures:
            text(figure)
            digest.update(struct.pack("<d", value))
        for x, y in tail:
            digest.update(struct.pack("<dd", x, y))


class _Pool:
    """Processes of this machine, or those of a client of Dask's."""

    def __init__(self, client: Any, workers: Optional[int], retries: int) -> None:
        self.client, self.retries = client, retries
        self.pool: Any = None
        if client is None:
            from concurrent.futures import ProcessPoolExecutor

            self.pool = ProcessPoolExecutor(max_workers=workers)
        self.base: Any = None

    def begin(self, scenario: Scenario) -> None:
        # Each worker has it once, and not once with each task.
        self.base = self.client.scatter(scenario, broadcast=True, hash=False) if self.client else scenario

    def submit(self, point: Point, task: Task, full: bool) -> Any:
        _, case, seed = task
        if self.client is not None:
            return self.client.submit(
                _work, self.base, point, case, seed, full, pure=False, retries=self.retries
            )
        return self.pool.submit(_work, self.base, point, case, seed, full)

    def done(self, futures: List[Any]) -> Iterator[Any]:
        if self.client is not None:
            from distributed import as_completed

            return iter(as_completed(futures))
        from concurrent.futures import as_completed

        return iter(as_completed(futures))

    def end(self, futures: List[Any]) -> None:
        if self.client is not None:
            self.client.cancel(futures)
        elif self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)


def sweep(
    scenario: Runnable,
    grid: Optional[Mapping[str, Sequence[Any]]] = None,
    *,
    seeds: Optional[int] = None,
    seed: Optional[int] = None,
    cases: Sequence[str] = (),
    full: bool = False,
    client: Any = None,
    workers: Optional[int] = None,
    ci: "None | str | Target" = None,
    seeds_max: int = 100,
    retries: int = 3,
    progress: Progress = None,
    each: Optional[Callable[[Dict[str, Any], str, int, Rows], None]] = None,
) -> Sweep:
    """Run a scenario with all values of a grid, each case by several seeds.

    A task is one case of one point by one seed. Its figures follow from these alone: they are those of :func:`run` on one machine, bit by bit,
    whatever workers do, die, or come late.

    :param scenario: as of :func:`run`.
    :param grid: values by dotted key, such as ``{"host.pcpus": [2, 4], "vm.web.count": [1, 8]}``; all are combined.
    :param seeds: how many seeds each case is run by; those of the file if it is not said.
    :param seed: the first one.
    :param cases: names of the cases to run; all if there are none.
    :param full: the longer form.
    :param client: a ``distributed.Client``; without one, processes of this machine.
    :param workers: how many of these; as many as there are CPUs if it is not said.
    :param ci: how narrow the 95 % confidence interval of a figure shall be, such as ``"p99 5%"`` of all rows, or ``"web p99 5%"`` of one: a case whose
        interval is wider has more seeds, up to ``seeds_max``; one whose is narrower has no more.
    :param seeds_max: see ``ci``.
    :param retries: how often Dask runs a task anew that failed.
    :param progress: as of :func:`run`.
    :param each: called with each piece when it is there: the point's values, case, seed, and rows.
    """
    base = scenario_of(scenario)
    target = Target.parse(ci) if ci is not None else None
    first = base.seed if seed is None else seed
    n = base.seeds if seeds is None else seeds
    if target is not None:
        n = max(n, SEEDS_MIN)
    if not 1 <= n <= seeds_max:
        raise ArgumentError(f"seeds: {n}: 1 to {seeds_max}")
    of_grid = points(grid)
    # What is wrong with a point is said before the first task runs.
    scenarios = [_derived(base, point) for point in of_grid]
    of_cases = [list(cases) or scenario.cases(full=full) for scenario in scenarios]
    begin = time.perf_counter()
    result = Sweep(base, of_grid, sorted({case for all_of in of_cases for case in all_of}))
    found: Dict[Task, Rows] = {}
    wanted = [
        (number, case, first + nth)
        for number, all_of in enumerate(of_cases)
        for case in all_of
        for nth in range(n)
    ]
    counts = {(number, case): n for number, case, _ in wanted}
    pool = _Pool(client, workers, retries)
    futures: Dict[Any, Task] = {}
    try:
        pool.begin(base)
        with shown(progress, base.name) as tell:
            total = len(wanted)
            while wanted:
                futures = {pool.submit(of_grid[task[0]], task, full): task for task in wanted}
                for future in pool.done(list(futures)):
                    task = futures[future]
                    seconds, rows = future.result()
                    found[task] = rows
                    result.simulated_seconds += seconds
                    if each is not None:
                        each(dict(of_grid[task[0]]), task[1], task[2], rows)
                    if tell is not None:
                        tell(len(found), total)
                wanted = _more(target, scenarios, counts, found, first, seeds_max, full)
                total += len(wanted)
    finally:
        pool.end(list(futures))
    digest = hashlib.sha256()
    for task in sorted(found):
        _bits(digest, task, found[task])
    result._digest = digest.hexdigest()
    result.pieces = len(found)
    for number, (point, scenario) in enumerate(zip(of_grid, scenarios)):
        for case in of_cases[number]:
            count = counts[number, case]
            pieces = [(case, first + nth, found[number, case, first + nth]) for nth in range(count)]
            outcome = _lowtail.join(scenario, pieces, seed=first, seeds=count, full=full, cases=[case])
            result.outcomes.append((dict(point), outcome))
    result.elapsed_seconds = time.perf_counter() - begin
    return result


def _more(
    target: Optional[Target],
    scenarios: List[Scenario],
    counts: Dict[Tuple[int, str], int],
    found: Dict[Task, Rows],
    first: int,
    seeds_max: int,
    full: bool,
) -> List[Task]:
    """Tasks of cases whose intervals are too wide yet."""
    if target is None:
        return []
    wanted = []
    for (number, case), n in counts.items():
        pieces = [(first + nth, found[number, case, first + nth]) for nth in range(n)]
        means = _lowtail.mean(scenarios[number], case, pieces, full=full)
        # No more than twice as many at once: an interval of few seeds is a guess itself.
        needed = min(target.seeds(means, n), 2 * n, seeds_max)
        wanted += [(number, case, first + nth) for nth in range(n, needed)]
        counts[number, case] = max(n, needed)
    return wanted


def plan(
    scenario: Runnable,
    grid: Optional[Mapping[str, Sequence[Any]]] = None,
    *,
    cases: Sequence[str] = (),
    seed: Optional[int] = None,
    full: bool = False,
    pieces: int = 1_000_000,
    cores: int = 1_000,
) -> Dict[str, Any]:
    """What a sweep would take: each case of each point is run once here.

    :returns: ``cost``: seconds of a core that each case took, on average over the grid; ``seconds_per_piece``; ``core_hours`` and ``hours`` for
        so many ``pieces`` on so many ``cores``, without what it takes to send them.
    """
    base = scenario_of(scenario)
    first = base.seed if seed is None else seed
    cost: Dict[str, List[float]] = {}
    for point in points(grid):
        for case in list(cases) or _derived(base, point).cases(full=full):
            seconds, _ = _work(base, point, case, first, full)
            cost.setdefault(case, []).append(seconds)
    means = {case: sum(all_of) / len(all_of) for case, all_of in cost.items()}
    everything = [seconds for all_of in cost.values() for seconds in all_of]
    per_piece = sum(everything) / len(everything)
    core_hours = per_piece * pieces / 3600
    return {
        "cost": means,
        "seconds_per_piece": per_piece,
        "core_hours": core_hours,
        "hours": core_hours / cores,
    }
