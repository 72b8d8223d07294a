"""submit --platform=gke makes JobSets that Kubernetes accepts and that resume."""

import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest
import yaml
from absl import flags

from albert_tf import doctor, submit
from albert_tf.cluster import gke_nodes, jobset, plans
from albert_tf.training import guard
from tests.support import binaries, small_run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IMAGE = "europe-west4-docker.pkg.dev/project/images/albert-tf:tpu-1"
FOLDERS = ("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run")
GKE = ("--platform=gke", f"--image={IMAGE}", "--config=configs/demo.py", *FOLDERS)
TPU = (*GKE, "--tpu_type=v5litepod-8", "--name=night")
POD = (*GKE, "--tpu_type=v6e-16", "--name=night")
GPU = (*GKE, "--gpu_type=nvidia-l4", "--num_gpus=2", "--name=night")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def validator(testdata) -> jsonschema.Draft202012Validator:
    schema = json.loads((testdata / "cluster" / "jobset_schema.json").read_text())
    return jsonschema.Draft202012Validator(_strict(schema))


def _strict(schema):
    """Refuses fields that the schema does not name, as `kubectl` does."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(value) for name, value in schema.items()}
    # Kubernetes' own: metadata is an object of any fields here.
    is_object = schema.get("type") == "object" and "properties" in schema
    return made | {"additionalProperties": False} if is_object else made


def _printed(capsys, *arguments: str) -> str:
    binaries.run(submit, *arguments)
    return capsys.readouterr().out


def _manifest(capsys, *arguments: str) -> dict:
    return yaml.safe_load(_printed(capsys, *arguments))


def _job(manifest: dict) -> dict:
    (replicated,) = manifest["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["replicas"]) == ("train", 1)
    return replicated["template"]["spec"]


def _pod(manifest: dict) -> dict:
    return _job(manifest)["template"]["spec"]


def _container(manifest: dict) -> dict:
    (container,) = _pod(manifest)["containers"]
    return container


# ---- What is asked of the cluster ----


def test_a_tpu_of_one_host(capsys, validator):
    manifest = _manifest(capsys, *TPU, "--set=train.compute_dtype=bfloat16")
    validator.validate(manifest)
    tpu = {"limits": {"google.com/tpu": 8}, "requests": {"ephemeral-storage": "20Gi"}}
    common = {
        "image": IMAGE,
        "workingDir": "/app",
        "env": [],
        "resources": tpu,
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    checks = {
        "name": "checks",
        "command": [
            *("python", "-u", "-m", "albert_tf.doctor", *FOLDERS, "--expect_tpu")
        ],
    }
    training = {
        "name": "training",
        "command": [
            *("python", "-u", "-m", "albert_tf.pretrain", "--config=configs/demo.py"),
            *("--set=train.compute_dtype=bfloat16", *FOLDERS, "--tpu=local"),
        ],
    }
    assert manifest == {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "night"},
        "spec": {
            "ttlSecondsAfterFinished": 86400,
            "network": {"enableDNSHostnames": True, "subdomain": "night"},
            "failurePolicy": {
                "maxRestarts": 20,
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
                    "name": "train",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "completionMode": "Indexed",
                            "completions": 1,
                            "parallelism": 1,
                            "backoffLimit": 0,
                            "podFailurePolicy": _job(manifest)["podFailurePolicy"],
                            "template": {"spec": _pod(manifest)},
                        }
                    },
                }
            ],
        },
    }
    assert _pod(manifest) == {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 600,
        "shareProcessNamespace": True,
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
            "cloud.google.com/gke-tpu-topology": "2x4",
        },
        "initContainers": [checks | common],
        "containers": [training | common],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "20Gi"}}],
    }


def test_a_slice_of_several_hosts_is_one_node_pool_and_ends_with_its_first(
    capsys, validator
):
    manifest = _manifest(capsys, *POD)
    validator.validate(manifest)
    assert manifest["metadata"]["annotations"] == {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"
    }
    job = _job(manifest)
    assert (job["completions"], job["parallelism"]) == (4, 4)
    assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    container = _container(manifest)
    assert container["command"][-1] == "--tpu=pod"
    assert container["env"] == [{"name": "TPU_LOAD_LIBRARY", "value": "0"}]
    assert container["resources"]["limits"] == {"google.com/tpu": 4}


def test_hosts_with_gpus_know_each_other_and_are_not_root(capsys, validator):
    manifest = _manifest(capsys, *GPU, "--num_hosts=3")
    validator.validate(manifest)
    assert "successPolicy" not in _job(manifest)
    assert _pod(manifest)["nodeSelector"] == {
        "cloud.google.com/gke-accelerator": "nvidia-l4"
    }
    container = _container(manifest)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert container["command"][-1] == "--strategy=multi_worker"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 10001,
    }
    driver, index, tf_config = container["env"]
    assert driver == {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}
    assert index["name"] == "HOST_INDEX"
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == (
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    )
    assert json.loads(_expanded(tf_config["value"], {"HOST_INDEX": "2"})) == {
        "cluster": {
            "worker": [
                "night-train-0-0.night:2222",
                "night-train-0-1.night:2222",
                "night-train-0-2.night:2222",
            ]
        },
        "task": {"type": "worker", "index": 2},
    }


def test_one_host_with_gpus_needs_no_other(capsys):
    container = _container(_manifest(capsys, *GPU))
    assert [one["name"] for one in container["env"]] == ["LD_LIBRARY_PATH"]
    assert container["command"][-1] == "--model_dir=gs://bucket/run"


@pytest.mark.parametrize(
    ("name", "accelerator", "topology", "num_hosts", "per_host"),
    [
        ("v4-8", "tpu-v4-podslice", "2x2x1", 1, 4),
        ("v4-16", "tpu-v4-podslice", "2x2x2", 2, 4),
        ("v4-64", "tpu-v4-podslice", "2x4x4", 8, 4),
        ("v4-4096", "tpu-v4-podslice", "8x16x16", 512, 4),
        ("v5litepod-1", "tpu-v5-lite-podslice", "1x1", 1, 1),
        ("v5litepod-4", "tpu-v5-lite-podslice", "2x2", 1, 4),
        ("v5litepod-8", "tpu-v5-lite-podslice", "2x4", 1, 8),
        ("v5litepod-16", "tpu-v5-lite-podslice", "4x4", 4, 4),
        ("v5litepod-256", "tpu-v5-lite-podslice", "16x16", 64, 4),
        ("v5p-8", "tpu-v5p-slice", "2x2x1", 1, 4),
        ("v5p-32", "tpu-v5p-slice", "2x2x4", 4, 4),
        ("v5p-128", "tpu-v5p-slice", "4x4x4", 16, 4),
        ("v5p-12288", "tpu-v5p-slice", "16x16x24", 1536, 4),
        ("v6e-1", "tpu-v6e-slice", "1x1", 1, 1),
        ("v6e-8", "tpu-v6e-slice", "2x4", 1, 8),
        ("v6e-32", "tpu-v6e-slice", "4x8", 8, 4),
    ],
)
def test_slices_have_labels_hosts_and_chips(
    name, accelerator, topology, num_hosts, per_host
):
    labels = {
        "cloud.google.com/gke-tpu-accelerator": accelerator,
        "cloud.google.com/gke-tpu-topology": topology,
    }
    assert gke_nodes.of_tpu(name) == gke_nodes.Nodes(
        name, labels, "google.com/tpu", per_host, num_hosts
    )
    chips = 1
    for side in topology.split("x"):
        chips *= int(side)
    assert chips == num_hosts * per_host


@pytest.mark.parametrize(
    "gpu", ["nvidia-l4", "nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-h100-80gb"]
)
def test_gpus_are_asked_for_by_their_label(gpu):
    assert gke_nodes.of_gpus(gpu, 4, 2) == gke_nodes.Nodes(
        gpu, {"cloud.google.com/gke-accelerator": gpu}, "nvidia.com/gpu", 4, 2
    )


def test_spot_service_account_namespace_and_restarts_are_the_users(capsys, validator):
    manifest = _manifest(
        capsys,
        *TPU,
        *("--spot", "--service_account=trainer", "--namespace=research"),
        "--max_restarts=3",
    )
    validator.validate(manifest)
    pod = _pod(manifest)
    assert pod["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    assert pod["tolerations"] == [
        {
            "key": "cloud.google.com/gke-spot",
            "operator": "Equal",
            "value": "true",
            "effect": "NoSchedule",
        }
    ]
    assert pod["serviceAccountName"] == "trainer"
    assert manifest["metadata"]["namespace"] == "research"
    assert manifest["spec"]["failurePolicy"]["maxRestarts"] == 3


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "failurePolicy", "maxRestart"), 3),
        (("spec", "failurePolicy", "maxRestarts"), "3"),
        (("spec", "replicatedJobs", 0, "template", "spec", "backofLimit"), 0),
        (("spec", "failurePolicy", "rules", 0, "action"), "Fail"),
    ],
)
def test_the_schema_finds_mistakes(capsys, validator, path, value):
    manifest = inner = _manifest(capsys, *TPU)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(manifest)


# ---- What becomes of a run ----


def _end(manifest: dict, code: int, is_disrupted: bool) -> str:
    """What Kubernetes does when a pod fails: the first rule that matches decides."""
    for rule in _job(manifest)["podFailurePolicy"]["rules"]:
        if "onPodConditions" in rule:
            (condition,) = rule["onPodConditions"]
            assert condition == {"type": "DisruptionTarget", "status": "True"}
            matches = is_disrupted
        else:
            assert rule["onExitCodes"]["operator"] == "NotIn"
            matches = code not in rule["onExitCodes"]["values"]
        if matches:
            return rule["action"]
    return "Count"  # against a backoffLimit of 0: the Job fails, the JobSet restarts


@pytest.mark.parametrize(
    ("code", "is_disrupted", "end"),
    [
        (75, False, "Count"),
        (143, False, "Count"),
        (137, True, "Count"),  # preempted, without time to save
        (1, True, "Count"),
        (1, False, "FailJob"),  # also a check of the machine that FAILED
        (guard.EXIT_CODE, False, "FailJob"),
        (137, False, "FailJob"),  # out of memory, and would be again
    ],
)
def test_a_run_resumes_after_the_codes_that_say_so(capsys, code, is_disrupted, end):
    manifest = _manifest(capsys, *POD)
    assert _end(manifest, code, is_disrupted) == end
    assert _job(manifest)["backoffLimit"] == 0
    assert _pod(manifest)["restartPolicy"] == "Never"  # podFailurePolicy needs it


# ---- The command ----


def _expanded(text: str, variables: dict[str, str]) -> str:
    """A text as Kubernetes reads it: $(NAME) is a variable, $$ is a dollar."""

    def replaced(match: re.Match) -> str:
        if match.group() == "$$":
            return "$"
        return variables.get(match[1], match.group())

    return re.sub(r"\$\$|\$\(([^)]*)\)", replaced, text)


@pytest.mark.parametrize(
    "value",
    ["$(HOST_INDEX)", "$$", "$", "a$b", "$$(HOST_INDEX)", 'it\'s "so" `date` \\n *'],
)
def test_values_reach_the_program_as_they_are(capsys, value):
    wanted = plans.Training("c.py", (f"text.a={value}",), "gs://d", "gs://m", "")
    nodes = gke_nodes.of_gpus("nvidia-l4", 1, 2)
    run = jobset.Run("n", "", nodes, IMAGE, "", False, 1)
    text = yaml.safe_dump(jobset.manifest(run, wanted))
    command = _container(yaml.safe_load(text))["command"]
    assert [_expanded(one, {"HOST_INDEX": "7"}) for one in command] == [
        *("python", "-u", "-m", "albert_tf.pretrain", "--config=c.py"),
        *(f"--set=text.a={value}", "--data_dir=gs://d", "--model_dir=gs://m"),
        "--strategy=multi_worker",
    ]


def test_the_commands_run_here_with_local_directories(capsys, tmp_path):
    """The container's own command trains; that of the checks has doctor's flags."""
    records = small_run.write_records(tmp_path)
    settings = [f"--set={one}" for one in small_run.OVERRIDES]
    manifest = _manifest(capsys, *GPU, *settings)
    local = {"gs://bucket/records": str(records), "gs://bucket/run": f"{tmp_path}/run"}

    def here(command: list[str]) -> list[str]:
        for remote, path in local.items():
            command = [one.replace(remote, path) for one in command]
        assert command[0] == "python"
        return [sys.executable, *command[1:]]

    (checks,) = _pod(manifest)["initContainers"]
    command = here(checks["command"])
    values = flags.FlagValues()
    doctor.define_flags(values)
    assert values(command[3:]) == ["albert_tf.doctor"]
    assert (values.expect_gpus, values.data_dir) == (2, str(records))
    done = subprocess.run(
        here(_container(manifest)["command"]),
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/run is complete" in done.stdout


# ---- What is printed, and what kubectl gets ----


def test_dry_run_is_a_manifest_with_comments(capsys):
    printed = _printed(capsys, *POD, "--namespace=research", "--spot")
    comments = [line for line in printed.splitlines() if line.startswith("#")]
    assert comments == [
        "# Dry run: nothing is created. With --execute, `kubectl create` gets this",
        "# manifest: 4 hosts, each with 4 google.com/tpu",
        "# of v6e-16, spot. Nodes cost money as long as the cluster has them.",
        "# How it is:",
        "#   kubectl --namespace=research get jobset night",
        "# What the first host's checks printed, and its training:",
        "#   kubectl --namespace=research logs --selector=jobset.sigs.k8s.io/"
        "jobset-name=night,batch.kubernetes.io/job-completion-index=0 "
        "--container=checks",
        "#   kubectl --namespace=research logs --selector=jobset.sigs.k8s.io/"
        "jobset-name=night,batch.kubernetes.io/job-completion-index=0 "
        "--container=training -f",
        "# To end it; a run that has ended is deleted after a day:",
        "#   kubectl --namespace=research delete jobset night",
    ]
    assert "&id" not in printed and "*id" not in printed


@pytest.fixture
def kubectl(tmp_path, monkeypatch) -> pathlib.Path:
    """A kubectl that records its calls; its exit code is in a file."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "call = [sys.argv[1:], sys.stdin.read()]\n"
        "(folder / 'call.json').write_text(json.dumps(call))\n"
        "sys.exit(int((folder / 'code').read_text()))\n"
    )
    program.chmod(0o755)
    (tmp_path / "code").write_text("0")
    monkeypatch.setenv("PATH", str(program.parent))
    return tmp_path


def test_execute_creates_the_printed_manifest(capsys, kubectl):
    printed = _printed(capsys, *TPU)
    said = _printed(capsys, *TPU, "--execute")
    argv, given = json.loads((kubectl / "call.json").read_text())
    # Not apply: a JobSet that exists is not touched.
    assert argv == ["create", "--filename=-"]
    assert yaml.safe_load(given) == yaml.safe_load(printed)
    assert "  kubectl get jobset night\n" in said


def test_delete_only_deletes_the_jobset(capsys, kubectl):
    arguments = (*TPU, "--delete_only", "--namespace=research")
    assert _printed(capsys, *arguments).endswith(
        "\nkubectl --namespace=research delete jobset night\n"
    )
    assert not (kubectl / "call.json").exists()
    _printed(capsys, *arguments, "--execute")
    argv, _ = json.loads((kubectl / "call.json").read_text())
    assert argv == ["--namespace=research", "delete", "jobset", "night"]


def test_a_failed_kubectl_is_an_error(capsys, kubectl):
    (kubectl / "code").write_text("1")
    error = binaries.error_of(capsys, submit, *TPU, "--execute")
    assert error == "kubectl create --filename=- ended with 1; its message is above"


def test_a_missing_kubectl_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = binaries.error_of(capsys, submit, *TPU, "--execute")
    assert error.startswith("--execute needs kubectl on PATH")


# ---- Mistakes ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--image="], "--image must be a container image, such as europe-west4-"),
        (["--image=a/b"], "--image must have a tag other than latest, or a digest"),
        (["--image=a/b:latest"], "--image must have a tag other than latest"),
        (
            ["--image=REGION-docker.pkg.dev/PROJECT/REPOSITORY/albert-tf:tpu-1"],
            "--image must have a repository name in lower case; replace PROJECT",
        ),
        (["--image=a/b:1\nc"], "received 'a/b:1\\nc'"),
        (["--image=a/B c:1"], "received 'a/B c:1'"),
        (["--image=--b:1"], "received '--b:1'"),
        (["--name=a\nb"], "--name must be 1 to 63"),
        (["--name=a.b"], "--name must be 1 to 63"),
        ([f"--name={'a' * 48}"], "--name must have at most 47 characters"),
        (["--namespace=a b"], "--namespace must be 1 to 63 lower-case letters"),
        (["--service_account=a\n"], "--service_account must be 1 to 63"),
        (["--data_dir=gs://a\nb"], "a value for a host must be a single line"),
        (["--model_dir=run"], "--model_dir must begin with gs://"),
        (["--tpu_type=v3-8"], "--platform=gke has v4-N, v5litepod-N, v5p-N, v6e-N"),
        (["--tpu_type=v5e-8"], "received 'v5e-8'"),
        (["--gpu_type=nvidia-l4"], "received both"),
        (["--model_dir=gs://BUCKET/run"], "--model_dir has 'BUCKET', and such names"),
        (["--zone=z"], "--zone is for --platform=vm; omit it with --platform=gke"),
        (["--queued"], "--queued is for --platform=vm"),
        (["--keep"], "--keep is for --platform=vm"),
        (["--platform=vm", "--zone=z"], "--image is for --platform=gke"),
    ],
)
def test_mistakes_are_named_before_anything_costs(capsys, arguments, message):
    error = binaries.error_of(capsys, submit, *TPU, *arguments)
    assert message in error


def test_a_recipe_that_the_image_has_not_is_refused(capsys, tmp_path):
    recipe = tmp_path / "mine.py"
    recipe.write_text((ROOT / "configs" / "demo.py").read_text())
    error = binaries.error_of(capsys, submit, *TPU, f"--config={recipe}")
    assert error.startswith("--config must be a recipe of the project with --platform=")
    assert "build the image again" in error


@pytest.mark.parametrize(
    "config", ["demo", "configs/demo.py", str(ROOT / "configs" / "demo.py")]
)
def test_recipes_have_names_and_paths_as_elsewhere(
    capsys, monkeypatch, tmp_path, config
):
    """Also outside a checkout, as the installed package is used."""
    monkeypatch.chdir(tmp_path)
    manifest = _manifest(capsys, *TPU, f"--config={config}")
    assert "--config=configs/demo.py" in _container(manifest)["command"]


def test_a_recipe_of_the_clone_that_the_image_is_built_from_is_taken(
    capsys, monkeypatch, tmp_path
):
    (tmp_path / "configs").mkdir()
    recipe = tmp_path / "configs" / "mine.py"
    recipe.write_text((ROOT / "configs" / "demo.py").read_text())
    monkeypatch.chdir(ROOT.parent)
    manifest = _manifest(capsys, *TPU, f"--source={tmp_path}", "--config=mine")
    assert "--config=configs/mine.py" in _container(manifest)["command"]


@pytest.mark.parametrize(
    "image",
    ["albert-tf:1", "host:5000/a_b/c.d:v1.0", f"a/b@sha256:{'0' * 64}", "a/b:1-rc_2"],
)
def test_images_with_a_version_are_taken(image):
    nodes = gke_nodes.of_tpu("v6e-8")
    assert jobset.Run("n", "", nodes, image, "", False, 0).image == image
