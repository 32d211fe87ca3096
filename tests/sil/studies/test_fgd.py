"""The study of fragmentation gradient descent against published results of its authors."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import polars as pl
import pytest

from sil.studies.fgd_curves import EXACT, curve, published, read_experiment
from tests.commands import sil, succeeded, the_sentence
from tests.oracles import oracle

WORKLOADS = ("default", "gpuspec33")


@pytest.fixture
def data() -> Path:
    return oracle("openb")


@pytest.mark.parametrize(
    ("workload", "policy"),
    [
        (workload, policy)
        if policy == "FGD" or workload == "default"
        else pytest.param(workload, policy, marks=pytest.mark.long)
        for workload in WORKLOADS
        for policy in EXACT
    ],
)
def test_a_curve_equals_the_published_one_at_every_point(workload: str, policy: str, data: Path) -> None:
    found = curve(read_experiment(data, workload, "42"), policy, 42)
    assert found.allocated == published(data)[workload, policy, "42"]


@pytest.mark.long
def test_the_command_reproduces_all_published_curves(data: Path, tmp_path: Path) -> None:
    succeeded("reproduce", "fgd", "--data", data, "--out", tmp_path)
    ledger = pl.read_csv(tmp_path / "fgd" / "ledger.csv")
    assert ledger["verdict"].to_list() == ["holds"] * 6
    assert "100 of 100 curves are equal" in ledger["ours"][0]


@pytest.fixture
def small(data: Path, tmp_path: Path) -> Path:
    """The default workload, of which 100 pods of seed 42 arrive."""
    for path in data.glob("*_default.csv.gz"):
        shutil.copyfile(path, tmp_path / path.name)
    for name in ("nodes.csv.gz", "allocation_seeds.csv.gz"):
        shutil.copyfile(data / name, tmp_path / name)
    order = tmp_path / "order_default.csv.gz"
    lines = [line.split(",")[:2] for line in gzip.decompress(order.read_bytes()).decode().splitlines()[:101]]
    order.unlink()
    (tmp_path / "order_default.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    return tmp_path


@pytest.mark.usefixtures("in_this_process")
def test_the_command_writes_curves_ledger_and_figures(small: Path) -> None:
    succeeded("reproduce", "fgd", "--data", small, "--out", small / "out")
    out = small / "out" / "fgd"
    curves = pl.read_csv(out / "allocation_curves.csv")
    assert curves.columns == ["workload", "policy", "seed", "arrived_pct", "allocated_pct", "fragmented_pct"]
    assert len(curves) == 6 * 131
    # Only 100 pods arrive, so that the curves end early.
    assert pl.read_csv(out / "ledger.csv")["verdict"][0] == "does not hold"
    assert (out / "allocation-default.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fgd"], "fgd needs --data FOLDER, its data"),
        (["cs2", "--data", "."], "cs2 reads no data: omit --data"),
        (["fgd", "--data", "."], "there is no workload; expected files like pods_default.csv"),
    ],
)
def test_missing_or_superfluous_data_are_reported(arguments: list[str], sentence: str, here: Path) -> None:
    assert sentence in the_sentence(sil("reproduce", *arguments))


@pytest.mark.parametrize(
    ("file", "before", "after", "sentence"),
    [
        (
            "pods_default",
            ",12000,",
            ",12k,",
            "line 2: cpu_milli is '12k'; expected a whole number, 0 or greater",
        ),
        (
            "pods_default",
            ",460,",
            ",1460,",
            "line 3: gpu_milli is 1460 for 1 GPU; expected 1 to 1000 of one GPU",
        ),
        (
            "pods_default",
            "gpu_milli",
            "gpus",
            "line 1: there is no column 'gpu_milli'; expected name, cpu_milli",
        ),
        ("noderank_default", "openb-node-0001", "node-1", "line 3: node 'node-1' is not in nodes.csv"),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_a_mistake_in_the_data_is_reported_with_file_and_line(
    file: str, before: str, after: str, sentence: str, small: Path
) -> None:
    path = small / f"{file}.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(text.replace(before, after, 1).encode()))
    found = the_sentence(sil("reproduce", "fgd", "--data", small, "--out", small / "out"))
    assert f"{file}.csv.gz, {sentence}" in found
