"""The queries of docs/fleet.md, over histories of three hosts whose answers are known."""

import re
from datetime import datetime, timedelta, timezone

import pytest

duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

BEGIN = datetime(2026, 11, 30, 10, 0, tzinfo=timezone.utc)


def queries(root):
    text = (root / "docs" / "fleet.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql\n-- name: (\w+)\n(.*?)^```", text, re.S | re.M)
    assert {name for name, _ in blocks} == {"pairs", "waits", "trap", "hours"}
    return dict(blocks)


def write(directory, table, rows):
    path = directory / table
    path.mkdir(parents=True)
    rows = pyarrow.Table.from_pylist(rows)
    if "reason" in rows.column_names:
        # As lowtail writes it where no wait has one.
        at = rows.column_names.index("reason")
        rows = rows.set_column(at, "reason", rows.column("reason").cast(pyarrow.string()))
    pyarrow.parquet.write_table(rows, path / "20261130T100000.000Z.parquet")


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """On h1 and h2 `batch` runs while `web` waits; h3 is a Xen with the trap."""
    minute = lambda n: BEGIN + timedelta(minutes=n)  # noqa: E731
    for host, reason, seconds in (("h1", None, 3.0), ("h2", None, 2.0), ("h3", "rate_limit_no_tickle", 0.5)):
        directory = tmp_path / "fleet" / f"host={host}"
        who = {"pid": 7, "started_ticks": 1}
        wait = {"vm": "web", **who, "role": "vcpu", "runner": "vm", "runner_name": "batch"}
        blame = [{"timestamp": minute(n), **wait, "ready_seconds": seconds / 2, "reason": reason} for n in range(2)]
        # Whose back end waits, and who is no VM, are no pairs.
        blame.append({**blame[0], "role": "vhost", "ready_seconds": 50.0, "reason": None})
        blame.append({**blame[0], "runner": "process", "runner_name": "kworker", "ready_seconds": 60.0, "reason": None})
        write(directory, "blame", blame)
        vms = [
            {"timestamp": minute(0), "vm": "web", **who, "vcpu_ready_seconds": seconds, "vcpu_run_time_seconds": 6.0},
            {"timestamp": minute(0), "vm": "idle", **who, "vcpu_ready_seconds": 0.0, "vcpu_run_time_seconds": 0.0},
        ]
        write(directory, "vms", vms)
        found = [{"timestamp": minute(n), "vm": "web", **who, "symptom": "ready-time"} for n in (0, 59, 61)]
        write(directory, "findings", found)
    monkeypatch.chdir(tmp_path)


def test_duckdb(root, fleet):
    ask = {name: duckdb.sql(query).fetchall() for name, query in queries(root).items()}
    assert ask["pairs"] == [("web", "batch", 3, 5.5)]
    assert [(host, vm) for host, vm, *_ in ask["waits"]] == [("h1", "web"), ("h2", "web"), ("h3", "web")]
    assert ask["waits"][0][2] == pytest.approx(3 / 9)
    assert ask["trap"] == [("h3", "web", 0.5)]
    assert len(ask["hours"]) == 6 and sum(row[3] for row in ask["hours"]) == 9


def test_dask(root, fleet):
    pytest.importorskip("dask.dataframe")
    text = (root / "docs" / "fleet.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    names = {}
    exec(block, names)
    assert names["pairs"].to_dict() == {("web", "batch"): 5.5}
