"""Nodes of Google Kubernetes Engine, and how a pod asks for them."""

import dataclasses

from albert_tf.cluster import machines

# The labels of Google Kubernetes Engine by the first part of a type of TPU. v2 and v3
# are not offered there.
_TPU_LABELS = {
    "v4": "tpu-v4-podslice",
    "v5litepod": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
}
# Of v4 and v5p, which are named by their TensorCores: two to a chip.
_IN_THREE_DIMENSIONS = {
    4: "2x2x1",
    8: "2x2x2",
    16: "2x2x4",
    32: "2x4x4",
    64: "4x4x4",
    128: "4x4x8",
    256: "4x8x8",
    512: "8x8x8",
    1024: "8x8x16",
    2048: "8x16x16",
    4096: "16x16x16",
    6144: "16x16x24",
}
# Of v5e and v6e, which are named by their chips.
_IN_TWO_DIMENSIONS = {
    1: "1x1",
    4: "2x2",
    8: "2x4",
    16: "4x4",
    32: "4x8",
    64: "8x8",
    128: "8x16",
    256: "16x16",
}


@dataclasses.dataclass(frozen=True)
class Nodes:
    """The nodes of a run, one for each of its hosts.

    Attributes:
      type: as the user named it, such as v5litepod-16.
      labels: what a node must have.
      resource: the name by which a container asks for accelerators.
      per_host: number of accelerators of each host: chips, or GPUs.
      num_hosts: number of hosts.
    """

    type: str
    labels: dict[str, str]
    resource: str
    per_host: int
    num_hosts: int

    @property
    def are_tpus(self) -> bool:
        """True if the accelerators are chips of a TPU slice."""
        return self.resource == "google.com/tpu"

    @property
    def is_tpu_pod(self) -> bool:
        """True for a TPU slice of several hosts."""
        return self.are_tpus and self.num_hosts > 1


def of_tpu(name: str) -> Nodes:
    """The nodes of a TPU slice.

    Args:
      name: a type, as `machines.tpu_type` takes it.

    Raises:
      ValueError: there is no such type, or not on Google Kubernetes Engine.
    """
    num_hosts = machines.tpu_type(name).num_hosts
    generation, _, size = name.partition("-")
    if generation not in _TPU_LABELS:
        raise ValueError(
            f"--platform=gke has {', '.join(f'{one}-N' for one in _TPU_LABELS)}; "
            f"received --tpu_type={name}, which only --platform=vm has"
        )
    if generation in ("v4", "v5p"):
        num_chips = int(size) // 2
        topology = _IN_THREE_DIMENSIONS[num_chips]
    else:
        num_chips = int(size)
        topology = _IN_TWO_DIMENSIONS[num_chips]
    labels = {
        "cloud.google.com/gke-tpu-accelerator": _TPU_LABELS[generation],
        "cloud.google.com/gke-tpu-topology": topology,
    }
    per_host = num_chips // num_hosts
    return Nodes(name, labels, "google.com/tpu", per_host, num_hosts)


def of_gpus(gpu_type: str, num_gpus: int, num_hosts: int) -> Nodes:
    """The nodes of hosts with GPUs.

    Args:
      gpu_type: a GPU that `machines.gpu_machine_type` knows; Google Kubernetes Engine
        has the same names.
      num_gpus: GPUs of each host.
      num_hosts: number of hosts.

    Raises:
      ValueError: the type of GPU is unknown, or no machine has that many.
    """
    machines.gpu_machine_type(gpu_type, num_gpus)
    labels = {"cloud.google.com/gke-accelerator": gpu_type}
    return Nodes(gpu_type, labels, "nvidia.com/gpu", num_gpus, num_hosts)
