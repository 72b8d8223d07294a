"""The calls of a run on a TPU slice."""

import dataclasses

from albert_tf.cluster import host_scripts, machines, plans

_TPUS = ("gcloud", "compute", "tpus")
_WAITING = frozenset(["CREATING", "STARTING", "RESTARTING", "REPAIRING"])
_QUEUE_WAITING = frozenset(
    ["CREATING", "ACCEPTED", "PROVISIONING", "WAITING_FOR_RESOURCES"]
)


@dataclasses.dataclass(frozen=True)
class TpuSlice:
    """A TPU slice to create.

    Attributes:
      name: name of the TPU VM and, if queued, of the queued resource.
      zone, project: where; project "" is gcloud's default.
      type: its type.
      runtime_version: the image; "" is the type's default.
      queued: request it by a queued resource.
      spot: cheap, and may be preempted at any time.
    """

    name: str
    zone: str
    project: str
    type: machines.TpuType
    runtime_version: str
    queued: bool
    spot: bool

    @property
    def is_pod(self) -> bool:
        """True if it has several hosts."""
        return self.type.num_hosts > 1


def machines_of(tpu: TpuSlice) -> plans.Machines:
    """Calls that create, poll and delete the slice."""
    resource = "queued-resources" if tpu.queued else "tpu-vm"
    place = plans.place(tpu.zone, tpu.project)
    version = tpu.runtime_version or tpu.type.runtime_version
    create = (
        *(*_TPUS, resource, "create", tpu.name, *place),
        *((f"--node-id={tpu.name}",) if tpu.queued else ()),
        f"--accelerator-type={tpu.type.name}",
        f"--{'runtime-version' if tpu.queued else 'version'}={version}",
        plans.SCOPES,
        *(("--spot",) if tpu.spot else ()),
    )
    state = (
        *(*_TPUS, resource, "describe", tpu.name, *place),
        f"--format=value({'state.state' if tpu.queued else 'state'})",
    )
    delete = (
        *(*_TPUS, resource, "delete", tpu.name, *place),
        # Deletes the TPU VM with the queued resource.
        *(("--force",) if tpu.queued else ()),
    )
    hosts = f"{tpu.type.num_hosts} hosts" if tpu.is_pod else "1 host"
    return plans.Machines(
        description=f"a TPU {tpu.type.name} ({hosts}) called {tpu.name} in {tpu.zone}"
        + (", spot" if tpu.spot else ""),
        create=plans.Command(
            "ask for the TPU" if tpu.queued else "create the TPU", create
        ),
        state=plans.Command("ask how the TPU is", state),
        delete=plans.Command("delete the TPU", delete),
        ready_states=frozenset(["ACTIVE"] if tpu.queued else ["READY"]),
        waiting_states=_QUEUE_WAITING if tpu.queued else _WAITING,
        queued=tpu.queued,
    )


def plan(tpu: TpuSlice, training: plans.Training) -> plans.Plan:
    """All calls for a run; `--worker=all` reaches all hosts of the slice."""
    place = plans.place(tpu.zone, tpu.project)
    ssh = (*_TPUS, "tpu-vm", "ssh", tpu.name, *place)

    def on_hosts(purpose: str, script: str) -> tuple[plans.Command, ...]:
        argv = (*ssh, "--worker=all", *plans.KEEP_ALIVE, f"--command={script}")
        return (plans.Command(purpose, argv),)

    scp = (
        *(*_TPUS, "tpu-vm", "scp", training.archive),
        f"{tpu.name}:{training.archive_name}",
        *(*place, "--worker=all"),
    )
    return plans.Plan(
        machines=machines_of(tpu),
        copy=(plans.Command("copy the code to all hosts", scp),),
        install=on_hosts(
            "unpack it and install the pinned packages on all hosts",
            host_scripts.install(training.archive_name, host_scripts.TPU_PACKAGES),
        ),
        start=on_hosts(
            "start the training on all hosts",
            host_scripts.start(
                training.checks("--expect_tpu", "--query_metadata"),
                training.arguments(f"--tpu={'pod' if tpu.is_pod else 'local'}"),
                # In a pod each host's TPU belongs to a server process, which pretrain
                # starts without this variable; see docs/clusters.md.
                # The peak of the chips follows from the type of the slice.
                {"TPU_ACCELERATOR_TYPE": tpu.type.name}
                | ({"TPU_LOAD_LIBRARY": "0"} if tpu.is_pod else {}),
            ),
        ),
        stop=on_hosts("end what is left of the run", host_scripts.stop()),
        status=on_hosts("ask all hosts whether it runs", host_scripts.status()),
        log_ssh=(*ssh, "--worker=0", *plans.KEEP_ALIVE),
        # The others only serve their TPUs to the first.
        first_host_decides=tpu.is_pod,
    )
