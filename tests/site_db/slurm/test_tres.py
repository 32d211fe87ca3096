from __future__ import annotations

import pytest

from site_db.slurm.output import BadTres, Tres, memory_mib, tres_of


def test_cpus_nodes_memory_and_gpus_by_type_are_read() -> None:
    assert tres_of("billing=64,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=512000M,node=2") == Tres(
        64, 2, 512_000, {"a100": 8}
    )


def test_gpus_beyond_those_with_a_type_are_of_any_type() -> None:
    assert tres_of("cpu=1,gres/gpu=4,gres/gpu:a100=1").gpus == {"a100": 1, "": 3}


def test_licences_and_burst_buffers_are_of_the_site_and_other_generic_resources_of_nodes() -> None:
    found = tres_of("cpu=1,license/matlab=2,license/ansys@srv=4,bb/datawarp=3,gres/fpga=1,gres/ssd=2K")
    assert found.site_resources == {"matlab": 2, "ansys@srv": 4, "datawarp": 3}
    assert found.others == {"fpga": 1, "ssd": 2048}


def test_what_is_only_billed_or_measured_is_no_resource() -> None:
    assert tres_of("cpu=1,energy=500,fs/disk=3,pages=4,vmem=5M,billing=8") == Tres(1)


@pytest.mark.parametrize(
    ("text", "mib"), [("1024K", 1), ("1025K", 2), ("4000M", 4000), ("0.5G", 512), ("2T", 2 * 2**20), ("7", 7)]
)
def test_memory_is_read_in_mib_and_rounded_up(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cpu", "'cpu' is not of the form name=amount, like cpu=64"),
        ("cpu=-3", "'cpu=-3' has no whole number of at least 0"),
        ("node=two", "'node=two' has no whole number of at least 0"),
        ("mem=-1G", "'-1G' is not an amount of memory, like 256G or 4000M"),
        ("gres/gpu:a100=1.5", "'gres/gpu:a100=1.5' has no whole number of at least 0"),
    ],
)
def test_what_cannot_be_read_is_quoted(text: str, sentence: str) -> None:
    with pytest.raises(BadTres) as caught:
        tres_of(text)
    assert str(caught.value) == sentence
