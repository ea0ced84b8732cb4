"""The notebooks run from their first cell to their last, in a kernel of their own."""

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NAMES = ["credit2-rate-limit", "predict-your-host", "small-is-better-swept", "fleet"]


def test_these_are_all(root):
    assert sorted(path.stem for path in (root / "docs" / "notebooks").glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, root, tmp_path, monkeypatch):
    monkeypatch.delenv("RECORDING", raising=False)
    monkeypatch.delenv("FLEET", raising=False)
    notebook = nbformat.read(root / "docs" / "notebooks" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    # In the tree they are without results.
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    # It looks for the recording from where it is.
    resources = {"metadata": {"path": str(root / "docs" / "notebooks")}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    pictures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    if name != "fleet":
        assert pictures, "it draws"
