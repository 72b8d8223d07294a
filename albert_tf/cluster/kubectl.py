"""Creates and deletes a JobSet by kubectl, or prints how."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator

import yaml

from albert_tf.cluster import executor, jobset, plans

_SECONDS = 5 * 60


def create(run: jobset.Run, training: plans.Training, execute: bool) -> None:
    """Creates the JobSet of a run; without `execute` it only prints it.

    Raises:
      ValueError: there is no kubectl, or a value has more than one line.
      executor.CloudError: kubectl failed.
    """
    text = yaml.safe_dump(jobset.manifest(run, training), sort_keys=False, width=88)
    if not execute:
        print("\n".join(_comments(run)))
        print(text, end="")
        return
    # Not `apply`: that would change a JobSet of the same name.
    _call((*run.kubectl, "create", "--filename=-"), text)
    print("\n".join(_next_calls(run)))


def delete(run: jobset.Run, execute: bool) -> None:
    """Deletes the JobSet of a run; without `execute` it only prints the call.

    Raises:
      ValueError: there is no kubectl.
      executor.CloudError: kubectl failed.
    """
    argv = _delete(run)
    if execute:
        _call(argv)
    else:
        print(f"# Dry run. With --execute:\n{shlex.join(argv)}")


def _comments(run: jobset.Run) -> Iterator[str]:
    nodes = run.nodes
    hosts = "1 host" if nodes.num_hosts == 1 else f"{nodes.num_hosts} hosts"
    spot = ", spot" if run.spot else ""
    yield "# Dry run: nothing is created. With --execute, `kubectl create` gets this"
    yield f"# manifest: {hosts}, each with {nodes.per_host} {nodes.resource}"
    yield f"# of {nodes.type}{spot}. Nodes cost money as long as the cluster has them."
    yield from (f"# {line}" for line in _next_calls(run))


def _next_calls(run: jobset.Run) -> Iterator[str]:
    selector = f"--selector=jobset.sigs.k8s.io/jobset-name={run.name}"
    index = "batch.kubernetes.io/job-completion-index=0"
    for purpose, argv in (
        ("How it is:", ("get", "jobset", run.name)),
        (
            "What the first host's checks printed, and its training:",
            ("logs", f"{selector},{index}", f"--container={jobset.CHECKS}"),
        ),
        (
            "",
            ("logs", f"{selector},{index}", f"--container={jobset.TRAINING}", "-f"),
        ),
    ):
        if purpose:
            yield purpose
        yield f"  {shlex.join((*run.kubectl, *argv))}"
    yield "To end it; a run that has ended is deleted after a day:"
    yield f"  {shlex.join(_delete(run))}"


def _delete(run: jobset.Run) -> tuple[str, ...]:
    return (*run.kubectl, "delete", "jobset", run.name)


def _call(argv: tuple[str, ...], text: str = "") -> None:
    if shutil.which(argv[0]) is None:
        raise ValueError(
            "--execute needs kubectl on PATH, and there is none; install it, and run "
            "`gcloud container clusters get-credentials CLUSTER`"
        )
    try:
        done = subprocess.run(argv, input=text, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise executor.CloudError(
            f"{shlex.join(argv)} did not end within {_SECONDS} s"
        ) from error
    if done.returncode:
        raise executor.CloudError(
            f"{shlex.join(argv)} ended with {done.returncode}; its message is above"
        )
