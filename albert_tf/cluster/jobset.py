"""The manifest of a run on Google Kubernetes Engine: a JobSet, as plain values.

JobSet (jobset.sigs.k8s.io) is an extension of Kubernetes. Of one JobSet it makes a Job
with a pod for each host, a headless service by which they find each other, and all of
them again after a failure.
"""

import dataclasses
import json
import re
from typing import Any

from albert_tf.cluster import gke_nodes, host_scripts, plans

# Names of the Job and of its containers; they are parts of the names of the pods.
JOB = "train"
CHECKS, TRAINING = "checks", "training"
WORKER_PORT = 2222
# The directory of the code in the image; docker/training.Dockerfile has the same.
CODE_DIR = "/app"
# The user of the image.
USER_ID = 10001

# The training's exit codes after which the same command resumes: after SIGTERM or an
# outage (EX_TEMPFAIL), and after SIGTERM before the first step.
_RESUMABLE = (75, 143)
# SIGTERM ends the current step, a save that may be in progress, and one more save.
# Spot machines are taken away after half a minute, whatever is written here.
_GRACE_SECONDS = 600
# How long a finished run can be looked at by kubectl.
_KEPT_SECONDS = 24 * 3600
# A checkpoint is a temporary file until it is uploaded; three of ALBERT xxlarge.
_TEMPORARY_FILES = "20Gi"
# Libraries by which GPUs of one host exchange gradients; the default is 64 MB.
_SHARED_MEMORY = "2Gi"
# Where Google Kubernetes Engine puts the driver's libraries.
_GPU_DRIVER = "/usr/local/nvidia/lib64"
# Pods are called NAME-train-0-INDEX-RANDOM, in at most 63 characters.
_LONGEST_NAME = 63
_RANDOM = "-abcde"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_WORDS = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?{_WORDS}(?:/{_WORDS})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run on Google Kubernetes Engine.

    Attributes:
      name: of the JobSet.
      namespace: where; "" is kubectl's.
      nodes: what it runs on.
      image: a container image of docker/training.Dockerfile.
      service_account: Kubernetes' service account, to which Google Cloud gives access
        to the buckets; "" is the namespace's default.
      spot: on machines that are cheap, and may be preempted at any time.
      max_restarts: most restarts.

    Raises:
      ValueError: a name has characters or a length that Kubernetes refuses, or the
        image is not one version.
    """

    name: str
    namespace: str
    nodes: gke_nodes.Nodes
    image: str
    service_account: str
    spot: bool
    max_restarts: int

    def __post_init__(self) -> None:
        longest = f"-{JOB}-0-{self.nodes.num_hosts - 1}{_RANDOM}"
        most = _LONGEST_NAME - len(longest)
        if len(self.name) > most:
            raise ValueError(
                f"--name must have at most {most} characters, because Kubernetes makes "
                f"the pods' names of it; received {len(self.name)}: {self.name!r}"
            )
        for flag in ("namespace", "service_account"):
            value = getattr(self, flag)
            if value and not _LABEL.fullmatch(value):
                raise ValueError(
                    f"--{flag} must be 1 to 63 lower-case letters, digits and '-', "
                    f"and neither begin nor end with '-'; received {value!r:.100}"
                )
        _check_image(self.image)

    @property
    def host_names(self) -> list[str]:
        """The names of all hosts, by which they find each other."""
        first = f"{self.name}-{JOB}-0"
        return [f"{first}-{n}.{self.name}" for n in range(self.nodes.num_hosts)]

    @property
    def kubectl(self) -> tuple[str, ...]:
        """The beginning of the calls of kubectl."""
        namespace = (f"--namespace={self.namespace}",) if self.namespace else ()
        return ("kubectl", *namespace)


def _check_image(image: str) -> None:
    """Raises ValueError with the rule that the name of an image breaks."""
    found = _IMAGE.fullmatch(image)
    if not found and _IMAGE.fullmatch(image.lower()):
        rule = (
            "--image must have a repository name in lower case; replace PROJECT and "
            "REPOSITORY by yours"
        )
    elif not found:
        rule = "--image must be a container image"
    elif found["digest"] or found["tag"] not in (None, "latest"):
        return
    else:
        rule = (
            "--image must have a tag other than latest, or a digest, so that a restart "
            "runs the same code"
        )
    raise ValueError(
        f"{rule}, such as europe-west4-docker.pkg.dev/my-project/images/albert-tf:tpu-1"
        f"; received {image!r:.100}"
    )


def manifest(run: Run, training: plans.Training) -> dict[str, Any]:
    """The JobSet that trains, as values of JSON.

    Raises:
      ValueError: a value of the command has more than one line.
    """
    metadata: dict[str, Any] = {"name": run.name}
    if run.namespace:
        metadata["namespace"] = run.namespace
    if run.nodes.is_tpu_pod:
        # All pods on the nodes of one slice, and nothing else there.
        topology = "alpha.jobset.sigs.k8s.io/exclusive-topology"
        metadata["annotations"] = {topology: "cloud.google.com/gke-nodepool"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "network": {"enableDNSHostnames": True, "subdomain": run.name},
            "failurePolicy": {
                "maxRestarts": run.max_restarts,
                "rules": [
                    {
                        "name": "needsAPerson",
                        "action": "FailJobSet",
                        "onJobFailureReasons": ["PodFailurePolicy"],
                    }
                ],
            },
            "replicatedJobs": [
                {
                    "name": JOB,
                    "replicas": 1,
                    "template": {"spec": _job(run, training)},
                }
            ],
        },
    }


def _job(run: Run, training: plans.Training) -> dict[str, Any]:
    job: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": run.nodes.num_hosts,
        "parallelism": run.nodes.num_hosts,
        # A host that is lost ends the Job, so that the JobSet starts all of them again.
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                # A preempted machine may have any exit code, or none.
                {
                    "action": "Count",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {"operator": "NotIn", "values": list(_RESUMABLE)},
                },
            ]
        },
        "template": {"spec": _pod(run, training)},
    }
    if run.nodes.is_tpu_pod:
        # The others only serve their TPUs to the first.
        job["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    return job


def _pod(run: Run, training: plans.Training) -> dict[str, Any]:
    nodes = run.nodes
    if nodes.are_tpus:
        checks = training.checks("--expect_tpu")
        arguments = training.arguments(
            f"--tpu={'pod' if nodes.is_tpu_pod else 'local'}"
        )
    else:
        checks = training.checks(f"--expect_gpus={nodes.per_host}")
        strategy = ("--strategy=multi_worker",) if nodes.num_hosts > 1 else ()
        arguments = training.arguments(*strategy)
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        # So that SIGTERM also ends a process that has no handler for it yet, which the
        # kernel prevents for the first process of a container.
        "shareProcessNamespace": True,
        "nodeSelector": dict(nodes.labels),
        "initContainers": [_container(run, CHECKS, "albert_tf.doctor", checks)],
        "containers": [_container(run, TRAINING, "albert_tf.pretrain", arguments)],
        "volumes": [
            {"name": name, "emptyDir": empty_dir}
            for name, _, empty_dir in _volumes(nodes)
        ],
    }
    if run.service_account:
        pod["serviceAccountName"] = run.service_account
    if run.spot:
        spot = "cloud.google.com/gke-spot"
        pod["nodeSelector"][spot] = "true"
        pod["tolerations"] = [
            {"key": spot, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
        ]
    return pod


def _container(
    run: Run, name: str, module: str, arguments: list[str]
) -> dict[str, Any]:
    host_scripts.check_single_lines(arguments)
    return {
        "name": name,
        "image": run.image,
        "workingDir": CODE_DIR,
        # No shell: the values reach the program as they are.
        "command": [*("python", "-u", "-m", module), *map(_literal, arguments)],
        "env": _environment(run),
        "resources": {
            "limits": {run.nodes.resource: run.nodes.per_host},
            "requests": {"ephemeral-storage": _TEMPORARY_FILES},
        },
        "securityContext": _security(run.nodes),
        "volumeMounts": [
            {"name": volume, "mountPath": path}
            for volume, path, _ in _volumes(run.nodes)
        ],
    }


def _environment(run: Run) -> list[dict[str, Any]]:
    if run.nodes.are_tpus:
        # In a pod each host's TPU belongs to a server process, which pretrain starts
        # without this variable. Which host this is, Kubernetes Engine sets.
        pod = [{"name": "TPU_LOAD_LIBRARY", "value": "0"}]
        return pod if run.nodes.is_tpu_pod else []
    variables: list[dict[str, Any]] = [
        {"name": "LD_LIBRARY_PATH", "value": _GPU_DRIVER}
    ]
    if run.nodes.num_hosts > 1:
        index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        workers = [f"{name}:{WORKER_PORT}" for name in run.host_names]
        cluster = json.dumps({"worker": workers})
        # Kubernetes inserts the value of a variable that is defined before.
        task = '{"type": "worker", "index": $(HOST_INDEX)}'
        variables += [
            {"name": "HOST_INDEX", "valueFrom": {"fieldRef": {"fieldPath": index}}},
            {"name": "TF_CONFIG", "value": f'{{"cluster": {cluster}, "task": {task}}}'},
        ]
    return variables


def _security(nodes: gke_nodes.Nodes) -> dict[str, Any]:
    if nodes.are_tpus:
        # The TPU's driver locks more memory than other containers may.
        return {"privileged": True, "runAsUser": 0}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
    }


def _volumes(nodes: gke_nodes.Nodes) -> list[tuple[str, str, dict[str, str]]]:
    """The name, the path and the kind of each volume."""
    volumes = [("tmp", "/tmp", {"sizeLimit": _TEMPORARY_FILES})]
    if not nodes.are_tpus:
        memory = {"medium": "Memory", "sizeLimit": _SHARED_MEMORY}
        volumes.append(("shm", "/dev/shm", memory))
    return volumes


def _literal(text: str) -> str:
    """Returns what Kubernetes reads as `text`: it replaces $(NAME), and $$ by $."""
    return text.replace("$", "$$")
