"""How far a run is, for people."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Iterator, Optional, Union

#: ``None``: a bar in a notebook that has tqdm; ``True``: a bar; ``False``: none; or what is called with the number of pieces that are done and of all.
Progress = Union[None, bool, Callable[[int, int], None]]


def _in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


@contextmanager
def shown(progress: Progress, what: str) -> Iterator[Optional[Callable[[int, int], None]]]:
    """What to call with done and all, or None."""
    if callable(progress):
        yield progress
        return
    # Nothing that runs in this process has imported IPython: there is no notebook.
    import sys

    notebook = "IPython" in sys.modules and _in_notebook()
    if progress is False or (progress is None and not notebook):
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if progress:
            raise
        yield None
        return
    with tqdm(desc=what, unit="run") as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.n = done
            bar.refresh()

        yield tell
