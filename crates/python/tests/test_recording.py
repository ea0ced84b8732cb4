"""Recordings, predictions, searches and policies: what the command says, to the last bit."""

import json

import lowtail
import pytest

XEN = "crates/trace/data/credit2-4.20-ratelimit1000.bin"


def test_latency_and_blame_are_those_of_the_command(root, command):
    theirs = command("trace", "latency", XEN, "--json")
    recording = lowtail.read_recording(root / XEN)
    assert recording.to_dict() == theirs
    rows = recording.latency().to_arrow().to_pylist()
    for ours, vcpu in zip(rows, theirs["vcpus"]):
        assert ours["vcpu"] == vcpu["vcpu"] and ours["cpu_ratio"] == vcpu["cpu_ratio"]
    blame = recording.blame().to_arrow().to_pylist()
    flat = [(v["vcpu"], b["vcpu"], b["ready_seconds"]) for v in theirs["vcpus"] for b in v["blame"]]
    assert [(b["vcpu"], b["runner"], b["ready_seconds"]) for b in blame] == flat
    assert recording.info()["records"] > 1000
    assert len(recording.events()) > 1000


def test_a_prediction_is_that_of_the_command(root, command):
    theirs = command("predict", XEN, "--ratelimit", "0us", "--name", "d1=web", "--seeds", 2, "--json")
    ours = lowtail.predict(root / XEN, ratelimit="0us", names={"d1": "web"}, seeds=2)
    assert ours.data == theirs
    web = next(row for row in ours.rows if row["vm"] == "web")
    assert web["predicted_p50_seconds"] < 1e-3 < web["recorded_p50_seconds"]
    assert ours.grade in ("good", "fair")


def test_what_does_not_fit_a_recording(root, tmp_path):
    with pytest.raises(lowtail.ArgumentError, match="scheduler"):
        lowtail.predict(root / XEN, scheduler="bfs")
    with pytest.raises(lowtail.ArgumentError, match="no VM `web`"):
        lowtail.predict(root / XEN, without=["web"])
    with pytest.raises(FileNotFoundError):
        lowtail.read_recording(tmp_path / "none.bin")
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(b"no trace at all" * 10)
    with pytest.raises(lowtail.RecordingError, match="damaged.bin"):
        lowtail.read_recording(damaged).latency()


def test_a_search_is_that_of_the_command(root, command):
    words = ["--goal", "d1 p90 <= 1ms", "--budget", 20, "--seeds", 2, "--anyway"]
    theirs = command("tune", XEN, *words, "--json")
    ours = lowtail.tune(root / XEN, "d1 p90 <= 1ms", budget=20, seeds=2, anyway=True)
    assert ours.data == theirs
    assert ours.rows[0]["point"] == 0
    if ours.policy:
        lowtail.policy.validate(ours.policy)


def test_samplers_of_others_may_search(root):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    problem = lowtail.problem(root / XEN, "d1 p90 <= 1ms", anyway=True)
    assert problem.goals == ["d1 p90 <= 1.00 ms"]

    def objective(trial):
        point = [
            trial.suggest_categorical(name, [None, *range(len(levels))]) for name, levels, _ in problem.parameters
        ]
        found = problem.evaluate(point, seed=0, whole=False)
        return (max(found[1]), found[2]) if found else (float("inf"), 1.0)

    study = optuna.create_study(directions=["minimize", "minimize"], sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(objective, n_trials=12)
    nothing = problem.evaluate([None] * len(problem.parameters), whole=False)
    assert nothing[2] == 0.0
    assert min(trial.values[0] for trial in study.trials) <= max(nothing[1])
    with pytest.raises(ValueError, match="a point has"):
        problem.evaluate([0] * (len(problem.parameters) + 1))


def test_policies(tmp_path):
    lowtail.policy.validate("[[vm]]\nname = 'web'\nweight = 200\n")
    with pytest.raises(lowtail.PolicyError) as caught:
        lowtail.policy.validate("[[vm]]\nname = 'web'\nwieght = 200\n")
    assert caught.value.line == 3 and "weight" in str(caught.value)
    path = tmp_path / "p.toml"
    path.write_text("vm = 3\n")
    with pytest.raises(lowtail.PolicyError) as caught:
        lowtail.policy.validate(path)
    assert caught.value.file == str(path)
    assert lowtail.policy.schema()["title"] == "lowtail policy"


def test_errors_come_back_from_other_processes():
    import pickle

    error = lowtail.ScenarioError("x.toml:3:1: wrong", "x.toml", 3, 1)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.line, again.column) == (str(error), "x.toml", 3, 1)
    json.dumps(str(again))
