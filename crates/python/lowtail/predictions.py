"""Predictions: what a change would do to a recorded host."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _lowtail
from ._lowtail import Recording

__all__ = ["Prediction", "predict"]


class Prediction:
    """What a change would do. ``data`` has all of it, as the JSON of ``lowtail predict --json`` does."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.data = data

    @property
    def grade(self) -> str:
        """How far the simulator can be trusted with the recording: ``good``, ``fair`` or ``poor``."""
        return self.data["grade"]["grade"]

    @property
    def worse(self) -> List[str]:
        """What gets worse, in words."""
        return self.data["worse"]

    @property
    def notes(self) -> List[str]:
        """What of the change cannot be set, or is not predicted."""
        return self.data["notes"]

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """Of each VM: recorded, replayed and predicted figures; seconds, and parts of a CPU. Medians over all seeds, with the least and the greatest."""
        rows = []
        for vm in self.data["vms"]:
            row: Dict[str, Any] = {"vm": vm["name"]}
            for figure in ("wakeups", "p50_seconds", "p99_seconds", "cpu_ratio"):
                recorded = vm["recorded"] or {}
                row[f"recorded_{figure}"] = recorded.get(figure)
                for when in ("replayed", "predicted"):
                    over = (vm[when] or {}).get(figure)
                    row[f"{when}_{figure}"] = over["median"] if over else None
                    if when == "predicted":
                        row[f"predicted_{figure}_min"] = over["min"] if over else None
                        row[f"predicted_{figure}_max"] = over["max"] if over else None
            rows.append(row)
        return rows

    def to_pandas(self):
        """:attr:`rows` as a ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(self.rows)

    def to_polars(self):
        """:attr:`rows` as a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self.rows)

    def __repr__(self) -> str:
        return f"<lowtail.Prediction for {len(self.data['vms'])} VMs, grade {self.grade}>"


def recording_of(recording: Union[Recording, str, "os.PathLike[str]"]) -> Recording:
    """A recording, or that at a path."""
    return recording if isinstance(recording, Recording) else Recording(recording)


def said_of(
    kernel: Optional[str],
    names: Optional[Mapping[str, str]],
    recorded_policy: Union[None, str, "os.PathLike[str]"],
    recorded_ratelimit: Optional[str],
    recorded_slice: Optional[str],
) -> Dict[str, Any]:
    """What a recording does not say of its host, for the extension."""
    return {
        "kernel": kernel,
        "names": dict(names) if names else None,
        "recorded_policy": os.fspath(recorded_policy) if recorded_policy is not None else None,
        "recorded_ratelimit": recorded_ratelimit,
        "recorded_slice": recorded_slice,
    }


def predict(
    recording: Union[Recording, str, "os.PathLike[str]"],
    *,
    policy: Union[None, str, "os.PathLike[str]"] = None,
    scheduler: Optional[str] = None,
    ratelimit: Optional[str] = None,
    slice: Optional[str] = None,
    cpus: Optional[int] = None,
    without: Sequence[str] = (),
    add: Optional[Mapping[str, int]] = None,
    pins: Optional[Mapping[str, Union[str, Sequence[int]]]] = None,
    seeds: int = 5,
    timers: Sequence[str] = (),
    arrivals: Sequence[str] = (),
    anyway: bool = False,
    kernel: Optional[str] = None,
    names: Optional[Mapping[str, str]] = None,
    recorded_policy: Union[None, str, "os.PathLike[str]"] = None,
    recorded_ratelimit: Optional[str] = None,
    recorded_slice: Optional[str] = None,
) -> Prediction:
    """Predict what a change does to the VMs of a recording.

    The recording runs in the simulator as it was, which gives the grade, and with the change.

    :param recording: a :class:`Recording`, or the path of one.
    :param policy: a policy file, or the text of one.
    :param scheduler: another scheduler: ``eevdf-6.12``, ``cfs-6.1``, ``small-first``, and so on; of Xen ``credit``, ``credit2-4.8``.
    :param ratelimit: Xen's rate limit, such as ``"100us"``; ``"0us"`` for none.
    :param slice: time slice of Xen's credit, such as ``"5ms"``.
    :param cpus: so many CPUs in place of those that were recorded.
    :param without: VMs to leave out.
    :param add: so many more VMs that do what this one does, at other times: ``{"web": 3}``.
    :param pins: CPUs of the threads of a VM: ``{"web": "0-3,8"}``.
    :param seeds: runs, each of which begins otherwise.
    :param timers: names of threads whose interrupts are their own timers; ``*`` stands for any characters.
    :param arrivals: names of threads whose interrupts are something from outside, such as requests.
    :param anyway: predict even if the simulator does not agree with the recording.
    :param kernel: the kernel, or Xen's scheduler, under which it was recorded, where the file does not say.
    :param names: what domains of Xen's are called: ``{"d1": "web"}``.
    :param recorded_policy: weights and caps of Xen's domains when it was recorded, as a policy.
    :param recorded_ratelimit: Xen's rate limit when it was recorded, where the records do not tell.
    :param recorded_slice: time slice of Xen's credit when it was recorded, where the records do not tell.
    :raises RecordingError: if it cannot be simulated, or not be trusted.
    """
    said = said_of(kernel, names, recorded_policy, recorded_ratelimit, recorded_slice)
    asked = {
        "policy": os.fspath(policy) if policy is not None else None,
        "scheduler": scheduler,
        "ratelimit": ratelimit,
        "slice": slice,
        "cpus": cpus,
        "without": list(without),
        "add": dict(add) if add else None,
        "pins": {vm: of if isinstance(of, str) else list(of) for vm, of in pins.items()} if pins else None,
    }
    text = _lowtail.predict(
        recording_of(recording),
        said,
        asked,
        seeds=seeds,
        timers=list(timers),
        arrivals=list(arrivals),
        anyway=anyway,
    )
    return Prediction(json.loads(text))
