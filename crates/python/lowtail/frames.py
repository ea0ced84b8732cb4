"""Tables as those of other libraries."""

from __future__ import annotations


def to_arrow(table):
    """As a ``pyarrow.Table``, which shares the memory."""
    import pyarrow

    return pyarrow.table(table)


def to_pandas(table):
    """As a ``pandas.DataFrame``. Columns of numbers without gaps share the memory; others are copied once."""
    # What is left of the Arrow table is given up column by column as pandas takes it.
    return to_arrow(table).to_pandas(split_blocks=True, self_destruct=True)


def to_polars(table):
    """As a ``polars.DataFrame``, which shares the memory."""
    import polars

    return polars.DataFrame(table)
