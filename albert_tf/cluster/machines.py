"""Types of TPU and GPU machines: number of hosts and image of each."""

import dataclasses
import difflib
import re

# Google Cloud's rule for names of machines; see "naming resources".
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class _Generation:
    """One generation of TPUs.

    Attributes:
      prefix: the part of a type before the number, such as `v5litepod`.
      sizes: the numbers that may follow: TensorCores, or chips from v5e on.
      runtime_version: the image without a framework, for `--version` of gcloud.
      per_host: that number for one host of a slice of several hosts.
      most_on_one_host: the largest number that one host serves alone.
    """

    prefix: str
    sizes: tuple[int, ...]
    runtime_version: str
    per_host: int
    most_on_one_host: int


def _doubling(first: int, last: int) -> tuple[int, ...]:
    return tuple(first << n for n in range((last // first).bit_length()))


_UBUNTU = "tpu-ubuntu2204-base"
# v2 to v5p are counted in TensorCores, eight to a host. v5e and v6e are counted in
# chips: eight on a host that is alone, four on each host of a slice of several.
_GENERATIONS = (
    _Generation("v2", (8, 32, 128, 256, 512), _UBUNTU, 8, 8),
    _Generation("v3", (8, 32, *_doubling(64, 2048)), _UBUNTU, 8, 8),
    _Generation("v4", _doubling(8, 4096), _UBUNTU, 8, 8),
    _Generation("v5litepod", (1, 4, *_doubling(8, 256)), "v2-alpha-tpuv5-lite", 4, 8),
    _Generation("v5p", (*_doubling(8, 8192), 12288), "v2-alpha-tpuv5", 8, 8),
    _Generation("v6e", (1, 4, *_doubling(8, 256)), "v2-alpha-tpuv6e", 4, 8),
)


@dataclasses.dataclass(frozen=True)
class TpuType:
    """One type of TPU slice.

    Attributes:
      name: as gcloud's `--accelerator-type` takes it.
      num_hosts: number of machines, each with an address and a disk.
      runtime_version: as gcloud's `--version` takes it.
    """

    name: str
    num_hosts: int
    runtime_version: str


def _tpu_types() -> dict[str, TpuType]:
    types = {}
    for generation in _GENERATIONS:
        for size in generation.sizes:
            name = f"{generation.prefix}-{size}"
            alone = size <= generation.most_on_one_host
            num_hosts = 1 if alone else size // generation.per_host
            types[name] = TpuType(name, num_hosts, generation.runtime_version)
    return types


_TPU_TYPES = _tpu_types()


def tpu_type(name: str) -> TpuType:
    """The type called `name`.

    Raises:
      ValueError: there is no type of that name.
    """
    if name not in _TPU_TYPES:
        close = difflib.get_close_matches(name, list(_TPU_TYPES), n=1, cutoff=0.0)
        families = ", ".join(
            f"{generation.prefix}-N (N = "
            + ", ".join(str(size) for size in generation.sizes)
            + ")"
            for generation in _GENERATIONS
        )
        raise ValueError(
            f"--tpu_type must be one of {families}; received {name!r}. The nearest is "
            f"{close[0]!r}"
        )
    return _TPU_TYPES[name]


# Machine types by type and number of GPUs. Where the GPUs are
# part of the machine it is named alone; N1 machines have theirs attached.
_GPU_MACHINES = {
    "nvidia-tesla-t4": {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32"},
    "nvidia-tesla-v100": {
        1: "n1-standard-8",
        2: "n1-standard-16",
        4: "n1-standard-32",
        8: "n1-standard-64",
    },
    "nvidia-l4": {
        1: "g2-standard-8",
        2: "g2-standard-24",
        4: "g2-standard-48",
        8: "g2-standard-96",
    },
    "nvidia-tesla-a100": {n: f"a2-highgpu-{n}g" for n in (1, 2, 4, 8)},
    "nvidia-a100-80gb": {n: f"a2-ultragpu-{n}g" for n in (1, 2, 4, 8)},
    "nvidia-h100-80gb": {n: f"a3-highgpu-{n}g" for n in (1, 2, 4, 8)},
}


def gpu_machine_type(gpu_type: str, num_gpus: int) -> str:
    """The machine type with `num_gpus` GPUs.

    Raises:
      ValueError: the type of GPU is unknown, or no machine has that many.
    """
    if gpu_type not in _GPU_MACHINES:
        raise ValueError(
            f"--gpu_type must be one of {', '.join(_GPU_MACHINES)}; received "
            f"{gpu_type!r}. For another one give --machine_type too"
        )
    machines = _GPU_MACHINES[gpu_type]
    if num_gpus not in machines:
        raise ValueError(
            f"--num_gpus must be one of {', '.join(map(str, machines))} for "
            f"{gpu_type}; received {num_gpus}"
        )
    return machines[num_gpus]


def check_name(name: str) -> None:
    """Raises a ValueError if Google Cloud would refuse `name` for a machine."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "--name must be 1 to 63 lower-case letters, digits and '-', begin with a "
            f"letter and not end with '-'; received {name!r}"
        )


def default_name(config: str, machine: str) -> str:
    """A name from the recipe and the machine type, such as `albert-base-v3-32`."""
    stem = re.sub(r"\.[a-z]+$", "", config.rsplit("/", 1)[-1])
    name = re.sub(r"[^a-z0-9]+", "-", f"{stem}-{machine}".lower()).strip("-")
    return name if name[:1].isalpha() else f"run-{name}"
