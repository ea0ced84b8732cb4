"""Sweeps: the same bits wherever they run."""

import json
import os
import signal
import subprocess
import sys
import time

import lowtail
import pytest
from lowtail.sweeping import Target, plan, points

GRID = {"vm.sleeper.workload.work": ["20us", "50us", "80us", "110us"], "vm.loop.count": [1, 2]}


@pytest.fixture
def base(scenario_text):
    return lowtail.Scenario.from_toml(scenario_text)


def rows(result):
    return result.to_arrow().to_pylist()


def test_a_sweep_has_the_figures_of_runs(base):
    result = lowtail.sweep(base, GRID, seeds=3, seed=5, workers=2)
    assert len(result.points) == 8 and result.pieces == 24
    for values, outcome in result.outcomes:
        alone = lowtail.run(base.with_values(values), seed=5, seeds=3)
        assert json.loads(outcome.to_json())["rows"] == json.loads(alone.to_json())["rows"]
    frame = result.to_pandas()
    assert set(GRID) <= set(frame.columns) and len(frame) == 8
    again = lowtail.sweep(base, GRID, seeds=3, seed=5, workers=1)
    assert again.digest() == result.digest()
    assert lowtail.sweep(base, GRID, seeds=3, seed=6, workers=2).digest() != result.digest()


def test_more_seeds_where_it_is_wide(base):
    grid = {"vm.loop.count": [1, 3]}
    result = lowtail.sweep(base, grid, seeds=5, ci="p99 8%", seeds_max=40, workers=2)
    for _, outcome in result.outcomes:
        (row,) = outcome.rows.to_arrow().to_pylist()
        data = json.loads(outcome.to_json())["rows"][0]
        half = data["intervals"]["p99_seconds"]
        # Narrow enough, or no more seeds were allowed.
        assert half <= 0.08 * row["p99_seconds"] or outcome.seeds == 40
        assert 5 <= outcome.seeds <= 40
    none = lowtail.sweep(base, grid, seeds=5, ci="p99 900%", workers=2)
    assert {outcome.seeds for _, outcome in none.outcomes} == {5}


def test_what_is_no_sweep(base):
    assert Target.parse("p99 5%") == Target("p99", 0.05)
    assert Target.parse("web p99 5%") == Target("p99", 0.05, "web")
    assert Target("p99", 0.05, "web").of("8 vCPUs/web") and not Target("p99", 0.05, "web").of("8 vCPUs/ueb")
    with pytest.raises(lowtail.ArgumentError, match="no row `none`; there is both"):
        lowtail.sweep(base, ci="none p99 5%", workers=1)
    with pytest.raises(lowtail.ArgumentError, match="no figure `p98`; there is .*p99"):
        lowtail.sweep(base, ci="p98 5%", workers=1)
    for bad in ("p99", "p99 5", "p99 -5%", "5%", "p99 1.2.3%"):
        with pytest.raises(lowtail.ArgumentError):
            Target.parse(bad)
    with pytest.raises(lowtail.ArgumentError, match="a list of values"):
        points({"host.pcpus": 4})
    # Before the first task runs.
    with pytest.raises(lowtail.ScenarioError, match="pcpus"):
        lowtail.sweep(base, {"host.pcpus": [1, "many"]}, workers=1)


def test_a_plan(base):
    planned = plan(base, {"vm.loop.count": [1, 2]}, pieces=1_000_000, cores=1_000)
    assert list(planned["cost"]) == ["both"]
    assert planned["core_hours"] == pytest.approx(planned["seconds_per_piece"] * 1e6 / 3600)
    assert planned["hours"] == pytest.approx(planned["core_hours"] / 1000)


def worker(address):
    words = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # Whole process groups, so that nothing is left.
    return subprocess.Popen(words, start_new_session=True, **quiet)


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@pytest.fixture
def scheduler():
    distributed = pytest.importorskip("distributed")
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    address = None
    for line in process.stderr:
        if "Scheduler at:" in line:
            address = line.split()[-1]
            break
    assert address, "the scheduler says where it is"
    # It would wait for somebody to read what it says.
    import threading

    threading.Thread(target=lambda: process.stderr.read(), daemon=True).start()
    client = distributed.Client(address)
    yield client, address
    client.close()
    kill(process)


def test_workers_die_and_come_late(scheduler, base):
    """400 cases on a scheduler of Dask's with three workers, of which one is killed in the middle and one comes late."""
    client, address = scheduler
    grid = {"vm.sleeper.workload.work": [f"{us}us" for us in range(20, 120)], "vm.loop.count": [1, 2]}
    base = base.with_values({"duration": "2s"})
    workers = [worker(address) for _ in range(2)]
    late = []
    client.wait_for_workers(2)
    seen = [0]

    def each(values, case, seed, of):
        seen[0] += 1
        if seen[0] == 100:
            late.append(worker(address))
        if seen[0] == 200:
            kill(workers[0])

    begin = time.monotonic()
    result = lowtail.sweep(base, grid, seeds=2, client=client, each=each)
    took = time.monotonic() - begin
    for process in [*workers, *late]:
        kill(process)
    assert result.pieces == 400 and late and seen[0] == 400
    alone = lowtail.sweep(base, grid, seeds=2, workers=2)
    assert result.digest() == alone.digest()
    print(f"400 pieces, {result.simulated_seconds:.1f} s of simulation, in {took:.1f} s; digest {result.digest()}")


def test_what_is_not_simulation_is_little(scheduler, base):
    """Beyond simulation a sweep takes at most 5 % of what the workers compute."""
    client, address = scheduler
    grid = {"vm.sleeper.workload.work": [f"{us}us" for us in range(20, 60)]}
    # A fifth of a second each. Those that outgrow a machine take longer: a piece of a published experiment takes seconds.
    base = base.with_values({"duration": "200s"})
    process = worker(address)
    client.wait_for_workers(1)
    try:
        result = lowtail.sweep(base, {"vm.sleeper.workload.work": ["20us"]}, seeds=2, client=client)
        result = lowtail.sweep(base, grid, seeds=1, client=client)
    finally:
        kill(process)
    overhead = result.elapsed_seconds / result.simulated_seconds - 1
    print(f"{result.pieces} pieces of {result.simulated_seconds / result.pieces:.3f} s: {100 * overhead:.1f} % more than simulation")
    assert overhead <= 0.05


def test_the_command_line(tmp_path, scenario_text):
    path = tmp_path / "my.toml"
    path.write_text(scenario_text)
    words = [sys.executable, "-m", "lowtail", "sweep", str(path), "--grid", "vm.loop.count=1,2", "--seeds", "2", "--jobs", "2"]
    done = subprocess.run([*words, "--out", str(tmp_path / "out"), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["pieces"] == 4
    import pandas

    frame = pandas.read_parquet(tmp_path / "out" / "rows.parquet")
    assert sorted(frame["vm.loop.count"]) == [1, 2]
    wrong = subprocess.run([*words[:5], "--grid", "host.pcpus=many"], capture_output=True, text=True)
    assert wrong.returncode == 3 and "pcpus" in wrong.stderr and "Traceback" not in wrong.stderr
    version = subprocess.run([sys.executable, "-m", "lowtail", "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and "lowtail" in version.stdout


def test_the_command_line_on_dask(scheduler, tmp_path, scenario_text):
    """The same digest as on processes of this machine, and progress for nobody who does not look."""
    client, address = scheduler
    process = worker(address)
    client.wait_for_workers(1)
    path = tmp_path / "my.toml"
    path.write_text(scenario_text)
    words = [sys.executable, "-m", "lowtail", "sweep", str(path), "--grid", "vm.loop.count=1,2", "--seeds", "2", "--json"]
    try:
        on_dask = subprocess.run([*words, "--dask", address], capture_output=True, text=True, timeout=120)
    finally:
        kill(process)
    here = subprocess.run([*words, "--jobs", "1"], capture_output=True, text=True, timeout=120)
    assert (on_dask.returncode, here.returncode) == (0, 0), on_dask.stderr + here.stderr
    assert json.loads(on_dask.stdout)["digest"] == json.loads(here.stdout)["digest"]
    assert here.stderr == ""
