"""The calls of a run on one or several hosts with GPUs."""

import dataclasses
import json

from albert_tf.cluster import host_scripts, plans

_WORKER_PORT = 2222
_WAITING = frozenset(["PROVISIONING", "STAGING", "REPAIRING"])


@dataclasses.dataclass(frozen=True)
class GpuHosts:
    """Hosts with GPUs to create, called NAME-0, NAME-1 and so on.

    Attributes:
      name: prefix of their names.
      zone, project: where; project "" is gcloud's default.
      gpu_type, num_gpus: the GPUs of each host.
      num_hosts: number of hosts.
      machine_type: of each host.
      image_family, image_project: image of the boot disk, with a GPU driver.
      spot: cheap, and may be preempted at any time.
    """

    name: str
    zone: str
    project: str
    gpu_type: str
    num_gpus: int
    num_hosts: int
    machine_type: str
    image_family: str
    image_project: str
    spot: bool

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of all hosts, which are their addresses too."""
        return tuple(f"{self.name}-{n}" for n in range(self.num_hosts))


def machines_of(gpus: GpuHosts) -> plans.Machines:
    """Calls that create, poll and delete the hosts."""
    instances = ("gcloud", "compute", "instances")
    place = plans.place(gpus.zone, gpus.project)
    names = gpus.host_names
    create = (
        *(*instances, "create", *names, *place),
        f"--machine-type={gpus.machine_type}",
        # The GPUs of N1 machines are attached by a flag.
        *(
            (f"--accelerator=type={gpus.gpu_type},count={gpus.num_gpus}",)
            if gpus.machine_type.startswith("n1-")
            else ()
        ),
        f"--image-family={gpus.image_family}",
        f"--image-project={gpus.image_project}",
        "--boot-disk-size=200GB",
        # A machine with GPUs cannot be migrated while it runs.
        "--maintenance-policy=TERMINATE",
        plans.SCOPES,
        *(
            ("--provisioning-model=SPOT", "--instance-termination-action=DELETE")
            if gpus.spot
            else ()
        ),
    )
    state = (
        *(*instances, "list", f"--zones={gpus.zone}"),
        *plans.in_project(gpus.project),
        f"--filter=name=({' '.join(names)})",
        "--format=value(status)",
    )
    hosts = "1 host" if gpus.num_hosts == 1 else f"{gpus.num_hosts} hosts"
    return plans.Machines(
        description=f"{hosts} ({', '.join(names)}) in {gpus.zone}, each a "
        f"{gpus.machine_type} with {gpus.num_gpus} {gpus.gpu_type}"
        + (", spot" if gpus.spot else ""),
        create=plans.Command("create the machines", create),
        state=plans.Command("ask how the machines are", state),
        delete=plans.Command(
            "delete the machines", (*instances, "delete", *names, *place)
        ),
        ready_states=frozenset(["RUNNING"]),
        waiting_states=_WAITING,
        num_words=gpus.num_hosts,
    )


def plan(gpus: GpuHosts, training: plans.Training) -> plans.Plan:
    """All calls for a run; host 0 is the chief."""
    place = plans.place(gpus.zone, gpus.project)
    install = host_scripts.install(training.archive_name, host_scripts.GPU_PACKAGES)

    def ssh(name: str) -> tuple[str, ...]:
        return ("gcloud", "compute", "ssh", name, *place, *plans.KEEP_ALIVE)

    def on_hosts(purpose: str, script: str) -> tuple[plans.Command, ...]:
        return tuple(
            plans.Command(f"{purpose} {name}", (*ssh(name), f"--command={script}"))
            for name in gpus.host_names
        )

    def copy(name: str) -> plans.Command:
        target = f"{name}:{training.archive_name}"
        scp = ("gcloud", "compute", "scp", training.archive, target, *place)
        return plans.Command(f"copy the code to {name}", scp)

    return plans.Plan(
        machines=machines_of(gpus),
        copy=tuple(copy(name) for name in gpus.host_names),
        install=on_hosts("unpack it and install the pinned packages on", install),
        start=tuple(
            plans.Command(
                f"start the training on {name}",
                (*ssh(name), f"--command={_start(gpus, training, index)}"),
            )
            for index, name in enumerate(gpus.host_names)
        ),
        stop=on_hosts("end what is left of the run on", host_scripts.stop()),
        status=on_hosts("ask whether it runs on", host_scripts.status()),
        log_ssh=ssh(gpus.host_names[0]),
        first_host_decides=False,
    )


def _start(gpus: GpuHosts, training: plans.Training, index: int) -> str:
    checks = training.checks(f"--expect_gpus={gpus.num_gpus}")
    if gpus.num_hosts == 1:
        return host_scripts.start(checks, training.arguments(), {})
    # Google's internal DNS resolves the names of the machines in a zone.
    workers = [f"{name}:{_WORKER_PORT}" for name in gpus.host_names]
    tf_config = {
        "cluster": {"worker": workers},
        "task": {"type": "worker", "index": index},
    }
    return host_scripts.start(
        checks,
        training.arguments("--strategy=multi_worker"),
        {"TF_CONFIG": json.dumps(tf_config)},
    )
