"""TPUs: the machine's, and TensorFlow's."""

import dataclasses
import importlib.metadata
import os
import pathlib

from albert_tf.devices import tpu_pod
from albert_tf.diagnostics import findings, pci, tensorflow_devices

# Google's other devices, a network card and a disk, are on each machine of its cloud.
# TPU v2 and v3, v4, v5p, v5e, v6e, 7x and one without a name, as in JAX's
# jax/_src/hardware_utils.py.
_GOOGLE = "0x1ae0"
_TPUS = {"0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076", "0x0056"}
# What a TPU VM and a node of Kubernetes set. Others are anywhere: a user sets
# TPU_SKIP_MDS_QUERY, and TensorFlow TPU_ML_PLATFORM when it is imported.
_SIGNS = {"TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"}
_SIGNS |= {"TPU_TOPOLOGY", "TPU_CHIPS_PER_HOST_BOUNDS"}
_INSTALL = "pip install --no-deps -r requirements-tpu.txt, in a new environment"


@dataclasses.dataclass(frozen=True)
class Observed:
    """A TPU as the machine shows it.

    Attributes:
      nodes: device files, such as /dev/accel0 and /dev/vfio/0.
      on_bus: TPUs on the PCI bus, of the products that are known.
      variables: environment variables TPU_*.
      metadata: accelerator-type of the machine's metadata, or "" if it has none or was
        not asked.
      libtpu: version of the installed libtpu, or "".
      has_tpu_build: tensorflow-tpu is installed.
    """

    nodes: tuple[str, ...] = ()
    on_bus: int = 0
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    metadata: str = ""
    libtpu: str = ""
    has_tpu_build: bool = False

    @property
    def exists(self) -> bool:
        """True on a TPU VM; other machines may have /dev/vfio too."""
        signs = self.variables.keys() & _SIGNS
        accelerators = [node for node in self.nodes if "accel" in node]
        return bool(accelerators or self.on_bus or signs or self.metadata)

    @property
    def type(self) -> str:
        """Such as v5litepod-8, or "" if it is unknown."""
        return self.variables.get("TPU_ACCELERATOR_TYPE", "") or self.metadata

    @property
    def is_left_to_servers(self) -> bool:
        """True if this process may not open the TPU, as in a slice of several hosts."""
        return self.variables.get("TPU_LOAD_LIBRARY") == "0"


def observe(
    query_metadata: bool = False, root: pathlib.Path = pathlib.Path("/")
) -> Observed:
    """Reads /dev and /sys under `root`, and the environment.

    Args:
      query_metadata: ask Google Cloud's metadata server, which elsewhere takes up to
        ten seconds.
      root: directory that has dev/ and sys/.
    """
    nodes = [
        *(root / "dev").glob("accel*"),
        *(root / "dev" / "vfio").glob("[0-9]*"),
    ]
    return Observed(
        nodes=tuple(sorted(f"/{node.relative_to(root)}" for node in nodes)),
        on_bus=sum(
            one.vendor == _GOOGLE and one.device in _TPUS for one in pci.devices(root)
        ),
        variables={k: v for k, v in os.environ.items() if k.startswith("TPU_")},
        metadata=_metadata() if query_metadata else "",
        libtpu=_version("libtpu"),
        has_tpu_build=bool(_version("tensorflow-tpu")),
    )


def _metadata() -> str:
    try:
        return tpu_pod.metadata("accelerator-type")
    except ValueError:
        return ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def judge(
    observed: Observed, devices: tensorflow_devices.Devices, is_expected: bool
) -> list[findings.Finding]:
    """A TPU that TensorFlow does not see fails, and so does one that must be there."""
    values = {**dataclasses.asdict(observed), "tensorflow": devices.tpu_systems}
    kind = f"TPU {observed.type}".rstrip()
    if not (observed.exists or devices.tpu_systems):
        if not is_expected:
            return [findings.Finding("tpu", findings.Status.OK, "none", values=values)]
        return _failed(
            "expected, and this is no TPU VM: no /dev/accel*, no TPU on the "
            "bus, no variable TPU_WORKER_ID",
            "Is it the right type of machine? In a container, pass /dev and the "
            "variables on (docker run --privileged)",
            values,
        )
    if not observed.has_tpu_build:
        text = f"{kind}, but this TensorFlow is not built for TPUs"
        return _failed(text, _INSTALL, values)
    if not observed.libtpu:
        return _failed(f"{kind}, but libtpu is missing", _INSTALL, values)
    if observed.is_left_to_servers:
        text = f"{kind}, left to the server of this host (TPU_LOAD_LIBRARY=0)"
        return [findings.Finding("tpu", findings.Status.OK, text, values=values)]
    if devices.error:
        text = f"{kind}, but TensorFlow does not start: {devices.error}"
        return _failed(text, "See the lines `imports`", values)
    if not devices.tpu_systems:
        said = devices.log[-1] if devices.log else "it does not say why"
        return _failed(
            f"{kind}, but TensorFlow sees none: {said}",
            "Does another process hold it (lsof /dev/accel0)? libtpu must be that of "
            "requirements-tpu.txt",
            values,
        )
    text = f"{kind}, libtpu {observed.libtpu}"
    return [findings.Finding("tpu", findings.Status.OK, text, values=values)]


def _failed(text: str, remedy: str, values: dict) -> list[findings.Finding]:
    return [findings.Finding("tpu", findings.Status.FAILED, text, remedy, values)]
