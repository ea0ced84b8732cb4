"""Reads a table with pandas, Polars and DuckDB, all of which have to say the same, and prints it as JSON.

Arguments: paths of Parquet files, or directories of them. For each: {"columns": [...], "rows": [{column: value, ...}, ...]}, with
floating-point numbers as the hexadecimal form of their bits and times as milliseconds since 1970 (UTC). "metadata" has unit and description
of each column, as pyarrow sees them.

With --json alone: JSON values from standard input as a list of them, with floating-point numbers in the same form.
"""

import datetime
import json
import math
import sys
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.dataset


def plain(value):
    """A value as JSON can have it without losing a bit."""
    if value is None or value is pandas.NaT or value is pandas.NA:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else value.hex()
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.timezone.utc)
        return round((value - epoch) / datetime.timedelta(milliseconds=1))
    return value


def rows(columns, table):
    return [dict(zip(columns, map(plain, row))) for row in table]


def by_pandas(path):
    # Integers that may be null stay integers.
    frame = pandas.read_parquet(path, dtype_backend="numpy_nullable")
    values = [frame[column].tolist() for column in frame.columns]
    return rows(frame.columns, zip(*values) if len(frame) else [])


def by_polars(path):
    frame = polars.read_parquet(f"{path}/*.parquet" if path.is_dir() else path)
    return rows(frame.columns, frame.iter_rows())


def by_duckdb(path):
    what = f"{path}/*.parquet" if path.is_dir() else str(path)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        told = connection.execute("SELECT * FROM read_parquet(?)", [what])
        columns = [column[0] for column in told.description]
        return rows(columns, told.fetchall())


def read(path):
    path = Path(path)
    dataset = pyarrow.dataset.dataset(path)
    columns = dataset.schema.names
    wanted = rows(columns, zip(*dataset.to_table().to_pydict().values()))
    for reader in (by_pandas, by_polars, by_duckdb):
        found = reader(path)
        for i, (own, one) in enumerate(zip(wanted, found)):
            for column in columns:
                if own[column] != one[column]:
                    sys.exit(f"{path}: {reader.__name__}, row {i}, {column}: {one[column]!r}, pyarrow has {own[column]!r}")
        if len(found) != len(wanted) or (found and list(found[0]) != columns):
            sys.exit(f"{path}: {reader.__name__} reads {len(found)} rows, pyarrow {len(wanted)}")
    said = {field.name: {key.decode(): text.decode() for key, text in field.metadata.items()} for field in dataset.schema}
    return {"columns": columns, "metadata": said, "rows": wanted}


def exact(value):
    if isinstance(value, dict):
        return {key: exact(value) for key, value in value.items()}
    return [exact(one) for one in value] if isinstance(value, list) else plain(value)


def values(text):
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        value, end = decoder.raw_decode(text, at)
        yield exact(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())


if sys.argv[1:] == ["--json"]:
    json.dump(list(values(sys.stdin.read())), sys.stdout)
else:
    json.dump([read(path) for path in sys.argv[1:]], sys.stdout)
