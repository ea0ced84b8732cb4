"""``python -m lowtail sweep FILE``: a sweep, on this machine or on a scheduler of Dask's. All else is the command ``lowtail``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, List, Tuple

from .errors import Error


def value_of(text: str) -> Any:
    """A value as TOML and JSON write it, or else a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def key_and_values(text: str) -> Tuple[str, List[Any]]:
    """``host.pcpus=2,4,8``."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise argparse.ArgumentTypeError(f"`{text}`: a key and its values, such as host.pcpus=2,4,8")
    return key.strip(), [value_of(value.strip()) for value in values.split(",")]


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m lowtail sweep", description="Run a scenario with all values of a grid, each case by several seeds"
    )
    root.add_argument("scenario", metavar="NAME|PATH", help="an experiment, or a scenario file")
    root.add_argument(
        "--grid", type=key_and_values, action="append", default=[], metavar="KEY=VALUE,…",
        help="values of a key, such as host.pcpus=2,4,8; of several keys all are combined",
    )
    root.add_argument("--seeds", type=int, metavar="N", help="seeds of each case [default: those of the file]")
    root.add_argument("--seed", type=int, metavar="N", help="the first one")
    root.add_argument("--case", action="append", default=[], metavar="NAME", help="run only this case; repeat for more")
    root.add_argument("--full", action="store_true", help="the longer form")
    root.add_argument("--ci", metavar="FIGURE PERCENT", help="more seeds where a confidence interval is wider, such as 'p99 5%%'")
    root.add_argument("--seeds-max", type=int, default=100, metavar="N", help="but no more than so many [default: 100]")
    root.add_argument("--dask", metavar="ADDRESS", help="a scheduler of Dask's, such as tcp://scheduler:8786")
    root.add_argument("--jobs", "-j", type=int, metavar="N", help="processes of this machine, without --dask")
    root.add_argument("--out", metavar="DIR", help="write rows.parquet and claims.parquet into this directory")
    root.add_argument("--plan", type=int, metavar="PIECES", help="run each case once, say what so many pieces would take, and end")
    root.add_argument("--cores", type=int, default=1000, metavar="N", help="on so many cores [default: 1000]")
    root.add_argument("--json", action="store_true", help="what was done as JSON")
    root.add_argument("--quiet", "-q", action="store_true", help="no progress")
    return root


def sweep(arguments: List[str]) -> int:
    from .sweeping import plan, sweep

    args = parser().parse_args(arguments)
    grid = dict(args.grid)
    if args.plan is not None:
        planned = plan(
            args.scenario, grid, cases=args.case, seed=args.seed, full=args.full, pieces=args.plan, cores=args.cores
        )
        if args.json:
            print(json.dumps(planned))
        else:
            width = max(map(len, planned["cost"]))
            for case, seconds in planned["cost"].items():
                print(f"{case:<{width}}  {seconds:10.4f} s")
            print(f"{'mean':<{width}}  {planned['seconds_per_piece']:10.4f} s")
            print(f"{args.plan} pieces: {planned['core_hours']:.1f} core hours, {planned['hours']:.2f} h on {args.cores} cores")
        return 0
    client = None
    if args.dask:
        from distributed import Client

        client = Client(args.dask)
    try:
        result = sweep(
            args.scenario,
            grid,
            seeds=args.seeds,
            seed=args.seed,
            cases=args.case,
            full=args.full,
            client=client,
            workers=args.jobs,
            ci=args.ci,
            seeds_max=args.seeds_max,
            progress=False if args.quiet or not sys.stderr.isatty() else True,
        )
    finally:
        if client is not None:
            client.close()
    if args.out:
        result.write(args.out)
    done = {
        "points": len(result.points),
        "pieces": result.pieces,
        "simulated_seconds": result.simulated_seconds,
        "elapsed_seconds": result.elapsed_seconds,
        "digest": result.digest(),
    }
    if args.json:
        print(json.dumps(done))
    else:
        print(
            f"{done['pieces']} pieces of {done['points']} points, {done['simulated_seconds']:.1f} s of simulation in "
            f"{done['elapsed_seconds']:.1f} s; digest {done['digest']}"
        )
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["sweep"]:
        try:
            return sweep(arguments[1:])
        except (Error, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 3
    # The command that the package brings along, from the directory in which this Python has its programs.
    program = os.path.join(os.path.dirname(sys.executable), "lowtail")
    try:
        os.execv(program, ["lowtail", *arguments])
    except OSError:
        os.execvp("lowtail", ["lowtail", *arguments])


if __name__ == "__main__":
    sys.exit(main())
