"""What a slice's name says: chips, replicas and the memory of each."""

import pytest

from albert_tf.devices import chip_table


@pytest.mark.parametrize(
    ("name", "num_chips", "num_replicas", "gib", "topology", "chip_config"),
    [
        # Two cores of a chip are two replicas, each with half of its 16 or 32 GiB.
        ("v2-8", 4, 8, 7.48, "v2:2x2", ""),
        ("v3-512", 256, 512, 15.48, "v3:2x2", ""),
        # Two cores are one device, on v4 only if the chip's configuration says so.
        ("v4-512", 256, 256, 30.75, "v4:2x2x1", "megacore"),
        ("v5p-8", 4, 4, 95.73, "v5p:2x2x1", ""),
        ("v5e-256", 256, 256, 15.75, "v5e:2x2", ""),
        ("v5litepod-8", 8, 8, 15.75, "v5e:2x2", ""),
        ("v6e-1", 1, 1, 31.24, "v6e:2x2", ""),
        ("v3", 1, 2, 15.48, "v3:2x2", ""),
    ],
)
def test_a_replica_is_a_core_or_a_chip(
    name, num_chips, num_replicas, gib, topology, chip_config
):
    found = chip_table.find(name)
    assert (found.num_chips, found.num_replicas) == (num_chips, num_replicas)
    assert found.chip.hbm_bytes == int(gib * 2**30)
    assert (found.chip.topology, found.chip.chip_config) == (topology, chip_config)
    assert found.chip.compiled_replicas == 4 * num_replicas // num_chips


def test_peaks_are_of_a_replica():
    peaks = {name: chip_table.find(name).chip.peak_flops for name in ("v3-8", "v4-8")}
    assert peaks == {"v3-8": 61.5e12, "v4-8": 275e12}
    assert chip_table.find("h100-8").chip.peak_flops == 989e12
    assert chip_table.find("cpu").chip.peak_flops == 0.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v9-8", "must be one of v2, v3, v4, v5e, v5p, v6e, a100, h100, h200, cpu"),
        ("", "must be one of"),
        ("v3-512-1", "must be one of"),
        ("v3-7", "--accelerator=v3 takes an even number of cores"),
        ("a100-0", "--accelerator=a100 takes a number of chips"),
        ("v3-99999", "at most 16384 chips; received 'v3-99999'"),
        ("cpu-4", "--accelerator=cpu takes no number"),
    ],
)
def test_other_names_are_refused_with_the_rule(name, message):
    with pytest.raises(ValueError, match=message):
        chip_table.find(name)
