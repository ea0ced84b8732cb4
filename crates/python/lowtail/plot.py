"""Pictures, by matplotlib. Each function draws into ``ax``, or into axes of its own, and gives them back."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Sequence

from ._lowtail import Outcome, Recording, Table
from .tuning import Tuned

__all__ = ["blame", "latency", "pareto", "queues", "schedule"]

#: Colours that people who see few colours can tell apart: M. Okabe and K. Ito, Color Universal Design (2008).
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442"]


def _axes(ax: Any, **size: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as pyplot

    return pyplot.subplots(**size)[1]


def _seconds(axis: Any) -> None:
    """A logarithmic axis of times: 1, 2 and 5 of each decade, with ms and µs."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(EngFormatter(unit="s", sep=" "))
    axis.set_minor_locator(NullLocator())


def _columns(table: Any) -> dict:
    """Columns of a table as lists."""
    arrow = table.to_arrow() if isinstance(table, Table) else table
    return {name: arrow.column(name).to_pylist() for name in arrow.column_names}


def _groups(keys: Iterable[Any]) -> dict:
    """Where each key stands, in the order in which they come."""
    groups: dict = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return groups


def latency(outcome: Outcome, cases: Optional[Sequence[str]] = None, ax: Any = None) -> Any:
    """Which share of all is longer than what, both axes logarithmic: one line for each row, as in the report of the command.

    :param cases: names of the rows to draw; all if it is not said.
    """
    ax = _axes(ax)
    columns = _columns(outcome.distributions)
    groups = _groups(columns["case"])
    if cases is not None:
        missing = [case for case in cases if case not in groups]
        if missing:
            raise KeyError(f"no row is called {missing[0]!r}; there is {', '.join(map(repr, groups))}")
        groups = {case: groups[case] for case in cases}
    for number, (case, at) in enumerate(groups.items()):
        ax.step(
            [columns["value_seconds"][i] for i in at],
            [columns["longer_ratio"][i] for i in at],
            where="post",
            label=case,
            color=COLORS[number % len(COLORS)],
            linestyle=["-", "--", ":", "-."][number // len(COLORS) % 4],
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    _seconds(ax.xaxis)
    ax.set_xlabel("latency")
    ax.set_ylabel("share that is longer")
    ax.set_title(outcome.title)
    ax.legend(fontsize="small")
    ax.grid(True, which="major", alpha=0.3)
    return ax


def schedule(outcome: Outcome, case: Optional[str] = None, begin: float = 0.0, seconds: Optional[float] = None, ax: Any = None) -> Any:
    """Who ran on which pCPU when, at the end of a case: ``run(record=N)`` keeps it.

    :param case: the case; the first one if it is not said.
    :param begin: seconds after the first record.
    :param seconds: for so long; all of it if it is not said.
    """
    columns = _columns(outcome.schedules)
    if not columns["case"]:
        raise ValueError("no schedule was recorded: run(..., record=100_000)")
    case = columns["case"][0] if case is None else case
    at = _groups(columns["case"])[case]
    first = columns["time_seconds"][at[0]]
    low = first + begin
    high = columns["time_seconds"][at[-1]] if seconds is None else low + seconds
    running: dict = {}
    stretches: List[tuple] = []
    for i in at:
        time, pcpu, vcpu, event = (columns[key][i] for key in ("time_seconds", "pcpu", "vcpu", "event"))
        if event not in ("run", "block", "preempt") or pcpu is None:
            continue
        since, who = running.get(pcpu, (None, None))
        if who is not None:
            stretches.append((pcpu, who, since, time))
        running[pcpu] = (time, vcpu if event == "run" else None)
    stretches += [(pcpu, who, since, high) for pcpu, (since, who) in running.items() if who is not None]
    names = sorted({who for _, who, _, _ in stretches})
    color = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    ax = _axes(ax, figsize=(10, 1 + 0.5 * len({pcpu for pcpu, *_ in stretches})))
    for (pcpu, who), all_of in _groups((pcpu, who) for pcpu, who, _, _ in stretches).items():
        bars = [stretches[i] for i in all_of]
        bars = [(max(b, low), min(e, high)) for _, _, b, e in bars if e > low and b < high]
        ax.broken_barh([(1e3 * (b - low), 1e3 * (e - b)) for b, e in bars], (pcpu - 0.4, 0.8), color=color[who])
    handles = [_patch(color[name], name) for name in names]
    ax.legend(handles=handles, fontsize="small", loc="upper right")
    ax.set_yticks(sorted({pcpu for pcpu, *_ in stretches}))
    ax.set_ylabel("pCPU")
    ax.set_xlabel("time (ms)")
    ax.set_title(f"{outcome.name}: {case}")
    return ax


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=color, label=label)


def queues(outcome: Outcome, ax: Any = None) -> Any:
    """How much waited at the ports of a network, over time."""
    columns = _columns(outcome.queues)
    if not columns["case"]:
        raise ValueError("no queue was watched")
    ax = _axes(ax, figsize=(10, 4))
    for number, ((case, queue), at) in enumerate(_groups(zip(columns["case"], columns["queue"])).items()):
        ax.step(
            [columns["time_seconds"][i] for i in at],
            [columns["bytes"][i] for i in at],
            where="post",
            label=f"{case}: {queue}",
            color=COLORS[number % len(COLORS)],
        )
    ax.set_xlabel("time (s)")
    ax.set_ylabel("bytes that wait")
    ax.legend(fontsize="small")
    return ax


def blame(recording: "Recording | Table", most: int = 12, ax: Any = None) -> Any:
    """Who ran while whom waited, as a matrix: rows wait for columns, in milliseconds.

    :param most: so many of those who waited longest.
    """
    table = recording.blame() if isinstance(recording, Recording) else recording
    columns = _columns(table)
    waited: dict = {}
    for vcpu, runner, seconds in zip(columns["vcpu"], columns["runner"], columns["ready_seconds"]):
        waited[vcpu, runner] = waited.get((vcpu, runner), 0.0) + seconds
    total: dict = {}
    for (vcpu, _), seconds in waited.items():
        total[vcpu] = total.get(vcpu, 0.0) + seconds
    rows = sorted(total, key=total.get, reverse=True)[:most]
    by: dict = {}
    for (vcpu, runner), seconds in waited.items():
        if vcpu in rows:
            by[runner] = by.get(runner, 0.0) + seconds
    runners = sorted(by, key=by.get, reverse=True)[:most]
    matrix = [[1e3 * waited.get((vcpu, runner), 0.0) for runner in runners] for vcpu in rows]
    ax = _axes(ax, figsize=(2 + 0.6 * len(runners), 1.5 + 0.4 * len(rows)))
    image = ax.imshow(matrix, cmap="Blues", aspect="auto")
    ax.set_xticks(range(len(runners)), runners, rotation=45, ha="right")
    ax.set_yticks(range(len(rows)), rows)
    greatest = max(map(max, matrix), default=0.0)
    for y, of in enumerate(matrix):
        for x, ms in enumerate(of):
            if ms > 0:
                ax.text(x, y, f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}", ha="center", va="center", fontsize="small", color="white" if ms > greatest / 2 else "black")
    ax.set_xlabel("who ran")
    ax.set_ylabel("who waited")
    ax.figure.colorbar(image, ax=ax, label="waited (ms)")
    return ax


def pareto(tuned: Tuned, goal: int = 0, ax: Any = None) -> Any:
    """The points of a search: the figure of a goal against the part of the work that is lost."""
    ax = _axes(ax)
    rows = tuned.rows
    name = list(rows[0])[5:][goal]
    ax.plot([100 * row["loss_ratio"] for row in rows[1:]], [row[name] for row in rows[1:]], marker="o", color=COLORS[0], label="points")
    ax.plot([0], [rows[0][name]], marker="s", linestyle="none", color=COLORS[1], label="nothing changed")
    for row in rows[1:]:
        ax.annotate(str(row["point"]), (100 * row["loss_ratio"], row[name]), textcoords="offset points", xytext=(5, 5))
    ax.set_xlabel("work that is lost (%)")
    ax.set_ylabel(name)
    if all(row[name] > 0 for row in rows):
        ax.set_yscale("log")
        if " cpu " not in name:
            _seconds(ax.yaxis)
    ax.legend(fontsize="small")
    ax.grid(True, alpha=0.3)
    return ax
