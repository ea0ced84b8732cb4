"""What documents show runs, block by block, from the root of the repository."""

import re

import pytest

PAGES = ["docs/how-to/python.md", "crates/python/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, root, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    text = (root / page).read_text(encoding="utf-8")
    blocks = [(m.start(), m[1]) for m in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)]
    assert blocks
    # Pictures go elsewhere; recordings are where the page says.
    (tmp_path / "crates").symlink_to(root / "crates")
    monkeypatch.chdir(tmp_path)
    names = {}
    for at, block in blocks:
        line = text.count("\n", 0, at) + 2
        exec(compile("\n" * (line - 1) + block, str(root / page), "exec"), names)
