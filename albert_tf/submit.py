r"""Runs pre-training on rented machines: a TPU slice, or hosts with GPUs.

python -m albert_tf.submit --tpu_type=v3-32 --zone=europe-west4-a \
    --config=configs/albert_base.py --data_dir=gs://B/records --model_dir=gs://B/run
python -m albert_tf.submit --gpu_type=nvidia-l4 --num_gpus=2 --num_hosts=2 ...
python -m albert_tf.submit --platform=gke --tpu_type=v6e-16 --image=IMAGE ...

prints the gcloud calls; with --execute it makes them: it creates the machine, follows
the log, restarts after a preemption, and deletes the machine at the end. With
--platform=gke it prints the manifest of a JobSet, which a cluster of Google Kubernetes
Engine runs; with --execute kubectl creates it. See docs/clusters.md.
"""

import functools
import math
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence

from absl import flags

from albert_tf.cluster import (
    executor,
    gke_nodes,
    gpu_plan,
    jobset,
    kubectl,
    machines,
    plans,
    source,
    tpu_plan,
)
from albert_tf.core import cli, config_io, recipes

# Flags that mean nothing on the other platform.
_ONLY_VM = (
    *("zone", "project", "runtime_version", "queued", "machine_type", "image_family"),
    *("image_project", "keep", "queue_hours", "poll_seconds"),
)
_ONLY_GKE = ("image", "namespace", "service_account")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    string, boolean = flags.DEFINE_string, flags.DEFINE_boolean
    # ---- What to run ----
    string("config", "", "Recipe, by name or path, or a config.json.", flag_values)
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )
    string("data_dir", "", "gs:// directory of records.", flag_values)
    string("model_dir", "", "gs:// run directory.", flag_values)
    string(
        "source",
        "",
        "Git checkout of the project whose tracked files are run; by default the one "
        "with the current directory.",
        flag_values,
    )
    # ---- On what ----
    flags.DEFINE_enum(
        "platform",
        "vm",
        ["vm", "gke"],
        "Machines of its own, or a cluster of Google Kubernetes Engine.",
        flag_values=flag_values,
    )
    string("zone", "", "Zone of Google Cloud, such as europe-west4-a.", flag_values)
    string("project", "", "Project; by default gcloud's.", flag_values)
    string("name", "", "Name of the machine; by default recipe and type.", flag_values)
    boolean("spot", False, "Cheap, and may be preempted at any time.", flag_values)
    string("tpu_type", "", "TPU slice, such as v3-32 or v5litepod-8.", flag_values)
    string("runtime_version", "", "TPU image; by default the type's.", flag_values)
    boolean("queued", False, "Request the TPU by a queued resource.", flag_values)
    string("gpu_type", "", "GPU, such as nvidia-l4 or nvidia-h100-80gb.", flag_values)
    flags.DEFINE_integer(
        "num_gpus", 1, "GPUs of each host.", 1, flag_values=flag_values
    )
    flags.DEFINE_integer("num_hosts", 1, "Hosts with GPUs.", 1, flag_values=flag_values)
    string("machine_type", "", "Type of GPU hosts; by default the GPU's.", flag_values)
    # The images of 2026 with Ubuntu 24.04 bring Python 3.12 and driver 580.
    string(
        "image_family",
        "common-cu129-ubuntu-2404-nvidia-580",
        "Image of GPU hosts, with a driver.",
        flag_values,
    )
    string(
        "image_project",
        "deeplearning-platform-release",
        "Project of that image.",
        flag_values,
    )
    string("image", "", "With gke: container image to run, with a tag.", flag_values)
    string("namespace", "", "With gke: by default kubectl's.", flag_values)
    string(
        "service_account",
        "",
        "With gke: Kubernetes service account that may use the buckets.",
        flag_values,
    )
    # ---- How ----
    boolean("execute", False, "Make the calls; else they are printed.", flag_values)
    boolean("keep", False, "Do not delete the machine at the end.", flag_values)
    boolean("delete_only", False, "Only delete the machine.", flag_values)
    flags.DEFINE_integer(
        "max_restarts",
        20,
        "Most restarts after preemptions.",
        0,
        flag_values=flag_values,
    )
    flags.DEFINE_float(
        "queue_hours", 24.0, "Longest wait for capacity.", 0, flag_values=flag_values
    )
    flags.DEFINE_float(
        "poll_seconds", 30.0, "Time between two polls.", 0, flag_values=flag_values
    )


def tpu_slice(values: flags.FlagValues) -> tpu_plan.TpuSlice:
    """The slice that the flags ask for.

    Raises:
      ValueError: type or name is wrong.
    """
    name = values.name or machines.default_name(values.config, values.tpu_type)
    machines.check_name(name)
    return tpu_plan.TpuSlice(
        name=name,
        zone=values.zone,
        project=values.project,
        type=machines.tpu_type(values.tpu_type),
        runtime_version=values.runtime_version,
        queued=values.queued,
        spot=values.spot,
    )


def gpu_hosts(values: flags.FlagValues) -> gpu_plan.GpuHosts:
    """The hosts with GPUs that the flags ask for.

    Raises:
      ValueError: type, number or name is wrong.
    """
    if values.queued:
        raise ValueError("--queued is for TPUs; omit it with --gpu_type")
    name = values.name or machines.default_name(values.config, values.gpu_type)
    machines.check_name(f"{name}-{values.num_hosts - 1}")
    machine_type = values.machine_type or machines.gpu_machine_type(
        values.gpu_type, values.num_gpus
    )
    return gpu_plan.GpuHosts(
        name=name,
        zone=values.zone,
        project=values.project,
        gpu_type=values.gpu_type,
        num_gpus=values.num_gpus,
        num_hosts=values.num_hosts,
        machine_type=machine_type,
        image_family=values.image_family,
        image_project=values.image_project,
        spot=values.spot,
    )


def gke_run(values: flags.FlagValues) -> jobset.Run:
    """The run on Google Kubernetes Engine that the flags ask for.

    Raises:
      ValueError: a type, a number, a name or the image is wrong.
    """
    if values.tpu_type:
        nodes = gke_nodes.of_tpu(values.tpu_type)
    else:
        nodes = gke_nodes.of_gpus(values.gpu_type, values.num_gpus, values.num_hosts)
    name = values.name or machines.default_name(values.config, nodes.type)
    machines.check_name(name)
    return jobset.Run(
        name=name,
        namespace=values.namespace,
        nodes=nodes,
        image=values.image,
        service_account=values.service_account,
        spot=values.spot,
        max_restarts=values.max_restarts,
    )


def _check_training(values: flags.FlagValues, config: str) -> None:
    """Raises ValueError if a directory is not on gs://, or a setting is wrong."""
    plans.check_remote("data_dir", values.data_dir)
    plans.check_remote("model_dir", values.model_dir)
    config_io.load(config, values.set)
    config_io.require_choice(config, values.set)


def _training(
    values: flags.FlagValues, config: str, archive: str = ""
) -> plans.Training:
    """The training that the flags ask for, with the path of its recipe there."""
    return plans.Training(
        config, tuple(values.set), values.data_dir, values.model_dir, archive
    )


def _recipe_dirs(checkout: pathlib.Path | None) -> list[str]:
    """Directories of the project's recipes: those of the code that will run first."""
    return [*([str(checkout / "configs")] if checkout else []), recipes.FOLDER]


def _find_recipe(config: str, checkout: pathlib.Path | None) -> str:
    """Returns the path of a recipe, which is given by path or by name."""
    paths = [recipes.find(config, folder) for folder in _recipe_dirs(checkout)]
    return next(filter(os.path.isfile, paths), config)


def _packed(values: flags.FlagValues) -> plans.Training:
    """The training that the flags ask for; writes its archive."""
    checkout = source.require_checkout(values.source)
    recipe = _find_recipe(values.config, checkout)
    _check_training(values, recipe)
    archive = source.pack(checkout, pathlib.Path(tempfile.gettempdir()), recipe)
    return _training(values, source.config_path(checkout, recipe), str(archive))


def printed(plan: plans.Plan, options: executor.Options) -> Iterator[str]:
    """The lines of a dry run: a shell script of the calls, each with a comment."""
    yield "# Dry run: nothing is created. With --execute, these calls create"
    yield f"# {plan.machines.description}."
    yield "# That costs money from its creation until it is deleted."
    follow = plan.follow(0, round(options.poll_seconds))
    calls = (
        (plan.machines.create, "", plan.machines.state, *plan.copy, *plan.install)
        + ("", *plan.start, "", follow, *plan.status)
        + (
            "The last two kinds are repeated until the run ends. After a preemption or "
            f"exit code 75, at most {options.max_restarts} times: if the machine is "
            "lost, delete and create it again; else",
            *plan.stop,
            "and start again. At the end"
            + (", unless kept:" if not options.keep else " you would, by hand:"),
            plan.machines.delete,
        )
    )
    for call in calls:
        if isinstance(call, plans.Command):
            yield f"\n# {call.purpose}\n{call.shell()}"
        elif call:
            yield f"\n# {call}"


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Prints the calls, or makes them."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        _submit(flag_values)


def _submit(values: flags.FlagValues) -> None:
    if bool(values.tpu_type) == bool(values.gpu_type):
        raise ValueError(
            "give either --tpu_type or --gpu_type; received "
            + ("both" if values.tpu_type else "neither")
        )
    is_gke = values.platform == "gke"
    for name in _ONLY_VM if is_gke else _ONLY_GKE:
        if values[name].present:
            other = "vm" if is_gke else "gke"
            raise ValueError(
                f"--{name} is for --platform={other}; omit it with "
                f"--platform={values.platform}"
            )
    if is_gke:
        _submit_to_gke(values)
    else:
        _submit_to_machines(values)


def _submit_to_gke(values: flags.FlagValues) -> None:
    run = gke_run(values)
    if values.delete_only:
        kubectl.delete(run, values.execute)
        return
    checkout = source.find_checkout(values.source)
    recipe = _find_recipe(values.config, checkout)
    _check_training(values, recipe)
    config = source.config_path_in_image(_recipe_dirs(checkout), recipe)
    kubectl.create(run, _training(values, config), values.execute)


def _submit_to_machines(values: flags.FlagValues) -> None:
    if not values.zone:
        raise ValueError(
            "--zone must name the machine's zone, such as europe-west4-a; received "
            "none. See Google's pages on TPU and GPU regions"
        )
    if not math.isfinite(values.poll_seconds):
        raise ValueError(
            "--poll_seconds must be a number of seconds; received "
            f"{values.poll_seconds}"
        )
    for flag in ("zone", "project"):
        plans.check_replaced(flag, getattr(values, flag))
    rented: plans.Machines
    make_plan: Callable[[plans.Training], plans.Plan]
    if values.tpu_type:
        tpu = tpu_slice(values)
        rented = tpu_plan.machines_of(tpu)
        make_plan = functools.partial(tpu_plan.plan, tpu)
    else:
        gpus = gpu_hosts(values)
        rented = gpu_plan.machines_of(gpus)
        make_plan = functools.partial(gpu_plan.plan, gpus)
    if values.execute and shutil.which("gcloud") is None:
        raise ValueError(
            "--execute needs gcloud on PATH, and there is none; install the Google "
            "Cloud CLI and run `gcloud auth login`"
        )
    # ---- Delete only ----
    if values.delete_only:
        if values.execute:
            executor.delete(rented, values.poll_seconds)
        else:
            print(f"# Dry run. With --execute:\n{rented.delete.shell()}")
        return
    # ---- Print or run ----
    plan = make_plan(_packed(values))
    options = executor.Options(
        max_restarts=values.max_restarts,
        keep=values.keep,
        queue_hours=values.queue_hours,
        poll_seconds=values.poll_seconds,
    )
    if values.execute:
        executor.execute(plan, options)
    else:
        for line in printed(plan, options):
            print(line)


if __name__ == "__main__":
    cli.run(main, define_flags)
