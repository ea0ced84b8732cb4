"""What all tests share."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: The root of the repository, whose recordings and experiments the tests read.
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def program() -> str:
    """The command that the package has brought along."""
    beside = Path(sys.executable).with_name("lowtail")
    found = str(beside) if beside.exists() else shutil.which("lowtail")
    assert found, "the package brings the command `lowtail`"
    return found


@pytest.fixture(scope="session")
def command():
    """Runs the command, and gives its JSON. 1 is the code of claims that do not hold."""

    def run(*words, codes=(0, 1)):
        words = [program(), *map(str, words)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"})
        assert done.returncode in codes, f"{words}: {done.returncode}: {done.stderr}"
        return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout

    return run


SCENARIO = """
title = "A sleeper beside a loop"
duration = "{duration}"
[host]
pcpus = 1
scheduler = {{ kind = "eevdf", version = "6.12" }}
[vm.sleeper]
workload = {{ kind = "timer-sleeper", sleep = {{ exponential = "1ms" }}, work = "50us", wakeups = 1000000 }}
[vm.loop]
workload = {{ kind = "cpu-loop" }}
[[case]]
name = "both"
rows = ["sleeper"]
"""


@pytest.fixture
def scenario_text():
    return SCENARIO.format(duration="300ms")


@pytest.fixture
def long_text():
    return SCENARIO.format(duration="86400s")
