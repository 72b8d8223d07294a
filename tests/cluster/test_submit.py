"""submit prints or makes exactly the calls that a run on rented machines needs."""

import ast
import importlib.metadata
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import types

import pytest
from packaging import requirements

from albert_tf import submit
from albert_tf.cluster import executor, gpu_plan, host_scripts, machines, plans, source
from tests.support import binaries, fake_gcloud

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TPU = ("--tpu_type=v3-8", "--zone=europe-west4-a", "--name=night")
POD = ("--tpu_type=v3-32", "--zone=europe-west4-a", "--name=night")
GPU = ("--gpu_type=nvidia-l4", "--zone=us-east1-b", "--name=night")
FOLDERS = ("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run")


@pytest.fixture
def checkout(tmp_path) -> pathlib.Path:
    """A git checkout with as much of this project as submit looks at."""
    root = tmp_path / "checkout"
    for name in ("albert_tf/pretrain.py", "tests/test_it.py", "requirements-tpu.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    (root / "requirements.txt").write_text("numpy==1.0\ntensorflow==2.20.0  # engine\n")
    (root / "constraints.txt").write_text("tensorflow==2.20.0\n")
    (root / "configs").mkdir()
    (root / "configs" / "tiny.py").write_text(
        "from albert_tf.core import config\n\n\ndef get_config():\n"
        "    return config.Config()\n"
    )
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True, timeout=60)
    (root / "albert_tf" / "untracked.py").write_text("# not to be sent\n")
    return root


class Cloud:
    """A fake gcloud, and submit started against it."""

    def __init__(self, tmp_path, checkout, num_hosts: int = 1, **script):
        self.folder = tmp_path / "cloud"
        self.programs = fake_gcloud.write(self.folder, script)
        self.tmp_path = tmp_path
        self.checkout = checkout
        self.num_hosts = num_hosts

    def popen(self, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "albert_tf.submit", "--execute"]
        return subprocess.Popen(
            [
                *command,
                f"--source={self.checkout}",
                f"--config={self.checkout}/configs/tiny.py",
                "--poll_seconds=0.1",
                *FOLDERS,
                *arguments,
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "TMPDIR": str(self.tmp_path),
                "FAKE_CLOUD": str(self.folder),
                "FAKE_HOSTS": str(self.num_hosts),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def submit(self, *arguments: str) -> tuple[int, str]:
        """The exit code and all that was printed."""
        process = self.popen(*arguments)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
            self.end_trainings()
        return process.returncode, output

    def end_trainings(self) -> None:
        """Ends what a failed test would leave: they are sessions of their own."""
        for file in self.folder.glob("host-*/albert_tf_run/process"):
            try:
                os.killpg(int(file.read_text().split()[0]), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def calls(self) -> list[str]:
        """What gcloud was called with: scripts by their names, repetitions once."""
        calls = []
        for argv in fake_gcloud.read_lines(self.folder / "calls.jsonl"):
            call = " ".join(_named(argument) for argument in argv)
            call = call.replace(f"{_KEEP_ALIVE} ", "").replace(f"{self.tmp_path}/", "")
            calls.append(re.sub(r"albert_tf-[0-9a-f]{12}.tar.gz", "CODE", call))
        return _looks_once(_calls_at_once_in_order(calls))

    def trainings(self) -> list:
        return fake_gcloud.read_lines(self.folder / "trainings.jsonl")

    def checks(self) -> list:
        return fake_gcloud.read_lines(self.folder / "checks.jsonl")

    def is_followed(self) -> bool:
        """Whether the training runs, its start is over, and its log is being shown."""
        return bool(self.trainings()) and _TPU_FOLLOW in self.calls()


def _named(argument: str) -> str:
    for mark, name in (
        ("uv pip install", "install"),
        ("run.sh", "start"),
        ("tail --bytes", "follow"),
        ("albert_tf_status", "status"),
        ("kill -TERM", "stop"),
    ):
        if argument.startswith("--command=") and mark in argument:
            return f"<{name}>"
    return argument


_KEEP_ALIVE = "--ssh-flag=-oServerAliveInterval=30 --ssh-flag=-oServerAliveCountMax=4"


def _calls_at_once_in_order(calls: list[str]) -> list[str]:
    """Calls to several hosts at a time are recorded in any order."""
    groups = itertools.groupby(calls, lambda call: re.sub(r"night-\d", "", call))
    return [call for _, group in groups for call in sorted(group)]


def _looks_once(calls: list[str]) -> list[str]:
    """Calls to follow and to poll are repeated any number of times."""
    blocks: list[list[str]] = []
    for call in calls:
        if call.endswith("<follow>") or not blocks or "<status>" not in call:
            blocks.append([])
        blocks[-1].append(call)
    return [
        call
        for before, block in itertools.pairwise([[""], *blocks])
        if block != before or not block[0].endswith("<follow>")
        for call in block
    ]


# ---- Whole runs, to the end ----

_AT = "--zone=europe-west4-a --quiet"
_TPU_CREATE = (
    f"compute tpus tpu-vm create night {_AT} --accelerator-type=v3-8 "
    "--version=tpu-ubuntu2204-base "
    "--scopes=https://www.googleapis.com/auth/cloud-platform"
)
_TPU_STATE = f"compute tpus tpu-vm describe night {_AT} --format=value(state)"
_TPU_DELETE = f"compute tpus tpu-vm delete night {_AT}"
_TPU_COPY = f"compute tpus tpu-vm scp CODE night:CODE {_AT} --worker=all"
_TPU_ALL = f"compute tpus tpu-vm ssh night {_AT} --worker=all"
_TPU_FOLLOW = f"compute tpus tpu-vm ssh night {_AT} --worker=0 <follow>"
_TPU_WAIT = [_TPU_FOLLOW, f"{_TPU_ALL} <status>"]
_TPU_PREPARE = [_TPU_COPY, f"{_TPU_ALL} <install>", f"{_TPU_ALL} <start>"]


def test_tpu_with_one_host_is_created_used_and_deleted(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, states=[["CREATING", "READY"]])
    code, output = cloud.submit(*TPU)
    assert code == 0, output
    assert cloud.calls() == [
        _TPU_STATE,  # whether the name is free
        _TPU_CREATE,
        _TPU_STATE,
        _TPU_STATE,
        *_TPU_PREPARE,
        *_TPU_WAIT,
        _TPU_FOLLOW,
        _TPU_DELETE,
    ]
    assert cloud.trainings() == [
        [
            "host-0",
            [
                *("-u", "-m", "albert_tf.pretrain", "--config=configs/tiny.py"),
                *("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run"),
                "--tpu=local",
            ],
            {"TF_CONFIG": None, "TPU_LOAD_LIBRARY": None},
            "albert_tf_run/source",
        ]
    ]
    assert cloud.checks() == [
        [
            "host-0",
            [
                *("-u", "-m", "albert_tf.doctor"),
                *("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run"),
                *("--expect_tpu", "--query_metadata"),
            ],
        ]
    ]
    assert output.index("checks, which end with 0") < output.index("training, which")
    assert "waiting for it: CREATING" in output
    assert output.count("training, which ends with 0\n") == 1
    assert "deleted; it costs nothing more" in output


@pytest.mark.slow
def test_pod_runs_the_same_on_all_hosts_until_the_first_is_done(tmp_path, checkout):
    ends = ["endless", "endless", "endless", "endless"]
    cloud = Cloud(tmp_path, checkout, num_hosts=4, trainings=ends)
    process = cloud.popen(*POD)
    try:
        _wait_for(lambda: len(cloud.trainings()) == 4)
        time.sleep(1)  # it must not end by itself
        assert process.poll() is None
        (cloud.folder / "host-0/albert_tf_run/exit_code").write_text("0\n")
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        cloud.end_trainings()
    assert process.returncode == 0, output
    assert [call for call in cloud.calls() if "create" in call] == [
        _TPU_CREATE.replace("v3-8", "v3-32")
    ]
    hosts, arguments, variables, _ = zip(*sorted(cloud.trainings()), strict=True)
    assert hosts == ("host-0", "host-1", "host-2", "host-3")
    assert all(argv == arguments[0] and argv[-1] == "--tpu=pod" for argv in arguments)
    assert all(seen["TPU_LOAD_LIBRARY"] == "0" for seen in variables)
    assert cloud.calls()[-1] == _TPU_DELETE


def test_queued_resource_is_waited_for_and_deleted_with_its_tpu(tmp_path, checkout):
    states = [["ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]]
    cloud = Cloud(tmp_path, checkout, states=states)
    code, output = cloud.submit(*TPU, "--queued", "--spot", "--project=p")
    assert code == 0, output
    at = "--zone=europe-west4-a --project=p --quiet"
    resource = "compute tpus queued-resources"
    state = f"{resource} describe night {at} --format=value(state.state)"
    calls = cloud.calls()
    assert calls[:6] == [
        state,
        f"{resource} create night {at} --node-id=night --accelerator-type=v3-8 "
        "--runtime-version=tpu-ubuntu2204-base "
        "--scopes=https://www.googleapis.com/auth/cloud-platform --spot",
        *[state] * 4,
    ]
    assert calls[6] == f"compute tpus tpu-vm scp CODE night:CODE {at} --worker=all"
    assert calls[-1] == f"{resource} delete night {at} --force"


_GPU_AT = "--zone=us-east1-b --quiet"
_GPU_FLAGS = (
    "--image-family=common-cu129-ubuntu-2404-nvidia-580 "
    "--image-project=deeplearning-platform-release --boot-disk-size=200GB "
    "--maintenance-policy=TERMINATE "
    "--scopes=https://www.googleapis.com/auth/cloud-platform"
)


def test_one_gpu_host_is_created_used_and_deleted(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, states=[["STAGING", "RUNNING"]])
    code, output = cloud.submit(*GPU)
    assert code == 0, output
    ssh = f"compute ssh night-0 {_GPU_AT}"
    state = (
        "compute instances list --zones=us-east1-b --quiet --filter=name=(night-0) "
        "--format=value(status)"
    )
    assert cloud.calls() == [
        state,
        f"compute instances create night-0 {_GPU_AT} --machine-type=g2-standard-8 "
        f"{_GPU_FLAGS}",
        state,
        state,
        f"compute scp CODE night-0:CODE {_GPU_AT}",
        *(f"{ssh} <install>", f"{ssh} <start>", f"{ssh} <follow>", f"{ssh} <status>"),
        f"{ssh} <follow>",
        f"compute instances delete night-0 {_GPU_AT}",
    ]
    [[_, arguments, variables, _]] = cloud.trainings()
    assert arguments[-1] == "--model_dir=gs://bucket/run"
    assert variables == {"TF_CONFIG": None, "TPU_LOAD_LIBRARY": None}
    [[_, checks]] = cloud.checks()
    assert checks == [
        *("-u", "-m", "albert_tf.doctor"),
        *("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run"),
        "--expect_gpus=1",
    ]


def test_two_gpu_hosts_find_one_another_by_tf_config(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, num_hosts=2)
    code, output = cloud.submit(
        "--gpu_type=nvidia-tesla-t4",
        *("--num_gpus=2", "--num_hosts=2", "--zone=us-east1-b", "--name=night"),
    )
    assert code == 0, output
    calls = cloud.calls()
    assert calls[1] == (
        f"compute instances create night-0 night-1 {_GPU_AT} "
        "--machine-type=n1-standard-16 --accelerator=type=nvidia-tesla-t4,count=2 "
        f"{_GPU_FLAGS}"
    )
    both = [f"compute ssh night-{n} {_GPU_AT}" for n in range(2)]
    assert calls[3:-1] == [
        *(f"compute scp CODE night-{n}:CODE {_GPU_AT}" for n in range(2)),
        *(f"{ssh} <install>" for ssh in both),
        *(f"{ssh} <start>" for ssh in both),
        f"{both[0]} <follow>",
        *(f"{ssh} <status>" for ssh in both),
        f"{both[0]} <follow>",
    ]
    assert calls[-1] == f"compute instances delete night-0 night-1 {_GPU_AT}"
    configs = {}
    for host, arguments, variables, _ in cloud.trainings():
        assert arguments[-1] == "--strategy=multi_worker"
        configs[host] = json.loads(variables["TF_CONFIG"])
    hosts, checks = zip(*sorted(cloud.checks()), strict=True)
    assert hosts == ("host-0", "host-1")
    assert all(arguments[-1] == "--expect_gpus=2" for arguments in checks)
    workers = {"worker": ["night-0:2222", "night-1:2222"]}
    assert configs == {
        "host-0": {"cluster": workers, "task": {"type": "worker", "index": 0}},
        "host-1": {"cluster": workers, "task": {"type": "worker", "index": 1}},
    }


# ---- When something goes wrong ----


@pytest.mark.slow
def test_exit_code_75_starts_the_same_command_again(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, trainings=[75, 75, 0])
    code, output = cloud.submit(*TPU)
    assert code == 0, output
    assert [call for call in cloud.calls() if "<st" in call or "delete" in call] == [
        f"{_TPU_ALL} <start>",
        *[f"{_TPU_ALL} <status>", f"{_TPU_ALL} <stop>", f"{_TPU_ALL} <start>"] * 2,
        f"{_TPU_ALL} <status>",
        _TPU_DELETE,
    ]
    first, second, third = cloud.trainings()
    assert first == second == third
    assert "restart 2 of at most 20" in output
    # Each line of the log is shown once, though it is asked for many times.
    assert output.count("training, which ends with 75\n") == 2


@pytest.mark.slow
def test_more_restarts_than_allowed_fail_and_delete(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, trainings=[75, 75, 75])
    code, output = cloud.submit(*TPU, "--max_restarts=1")
    assert code == 1
    assert "error: the run was lost once more after 1 restarts" in output
    assert cloud.calls()[-1] == _TPU_DELETE


@pytest.mark.slow
def test_two_gpu_hosts_are_both_started_again_when_one_is_lost(tmp_path, checkout):
    ends = [75, "endless", 0, 0]
    cloud = Cloud(tmp_path, checkout, num_hosts=2, trainings=ends)
    code, output = cloud.submit(*GPU, "--num_hosts=2")
    assert code == 0, output
    both = [f"compute ssh night-{n} {_GPU_AT}" for n in range(2)]
    assert [call for call in cloud.calls() if "stop" in call or "start" in call] == [
        *(f"{ssh} <start>" for ssh in both),
        *(f"{ssh} <stop>" for ssh in both),
        *(f"{ssh} <start>" for ssh in both),
    ]


@pytest.mark.slow
def test_preempted_tpu_is_created_again_and_resumes(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, trainings=["preempted", 0])
    code, output = cloud.submit(*TPU, "--spot")
    assert code == 0, output
    create = f"{_TPU_CREATE} --spot"
    assert cloud.calls() == [
        *(_TPU_STATE, create, _TPU_STATE, *_TPU_PREPARE, *_TPU_WAIT),
        *[_TPU_STATE] * 2,  # it is not reached; is it lost
        *(_TPU_DELETE, create, _TPU_STATE, *_TPU_PREPARE, *_TPU_WAIT),
        *(_TPU_FOLLOW, _TPU_DELETE),
    ]
    first, second = cloud.trainings()
    assert first == second
    assert "the machine was preempted" in output


@pytest.mark.slow
def test_capacity_is_waited_for_after_a_preemption(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, trainings=["preempted", 0], create=[0, 1, 1, 0])
    code, output = cloud.submit(*TPU)
    assert code == 0, output
    assert [call for call in cloud.calls() if "create" in call] == [_TPU_CREATE] * 4
    assert output.count("Trying again") == 2


def test_failed_creation_says_what_to_do_and_leaves_nothing(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, create=[1])
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert "ERROR: (gcloud) There is no more capacity in the zone\n" in output
    assert output.splitlines()[-1].startswith("error: could not create the TPU")
    assert "try another --zone or --queued" in output
    assert cloud.calls() == [_TPU_STATE, _TPU_CREATE, _TPU_DELETE, _TPU_STATE]


def test_failed_queued_resource_is_deleted(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, states=[["ACCEPTED", "FAILED"]])
    code, output = cloud.submit(*TPU, "--queued")
    assert code == 1
    assert "error: the machine will not become ready: it is FAILED" in output
    assert cloud.calls()[-1].startswith("compute tpus queued-resources delete night")


@pytest.mark.parametrize("exit_code", [1, 2])
def test_failed_training_deletes_the_machine(tmp_path, checkout, exit_code):
    cloud = Cloud(tmp_path, checkout, trainings=[exit_code])
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert f"error: the training failed with exit code {exit_code}" in output
    assert cloud.calls()[-1] == _TPU_DELETE


def test_host_that_fails_its_checks_is_deleted_before_it_trains(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, checks=[1])
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert "checks, which end with 1\n" in output
    assert "error: the training failed with exit code 1: see its line" in output
    assert cloud.trainings() == []
    assert cloud.calls()[-1] == _TPU_DELETE


@pytest.mark.slow
def test_host_whose_storage_is_away_is_checked_again(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, checks=[75, 0])
    code, output = cloud.submit(*TPU)
    assert code == 0, output
    assert len(cloud.checks()) == 2
    assert len(cloud.trainings()) == 1


def test_existing_machine_is_not_touched(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout)
    (cloud.folder / "words.json").write_text('["READY"]')
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert "error: a machine of that name exists already" in output
    assert cloud.calls() == [_TPU_STATE]


def test_failing_deletion_is_tried_again_and_then_shouted(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, delete=[1, 1, 1])
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert output.splitlines()[-1].startswith("error: NOT DELETED, and costing money")
    assert output.rstrip().endswith(
        "gcloud compute tpus tpu-vm delete night --zone=europe-west4-a --quiet"
    )
    assert cloud.calls().count(_TPU_DELETE) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_delete_the_machine(tmp_path, checkout, number):
    cloud = Cloud(tmp_path, checkout, trainings=["endless"])
    process = cloud.popen(*TPU)
    try:
        _wait_for(cloud.is_followed)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        cloud.end_trainings()
    assert process.returncode == 130, output
    assert cloud.calls()[-1] == _TPU_DELETE
    assert not (cloud.folder / "host-0").exists()


def test_ctrl_c_while_the_watchdog_starts_leaves_nothing_that_keeps_the_process(
    monkeypatch,
):
    def interrupted(timer):
        start(timer)
        raise KeyboardInterrupt

    start = threading.Timer.start
    monkeypatch.setattr(threading.Timer, "start", interrupted)
    plan = types.SimpleNamespace(
        follow=lambda *_: plans.Command("follow", ("sleep", "100"))
    )
    with pytest.raises(KeyboardInterrupt):
        executor._Log(plan, 1.0).show()
    timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)


def test_closed_terminal_that_takes_no_output_still_deletes(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, trainings=["endless"])
    process = cloud.popen(*TPU)
    try:
        _wait_for(cloud.is_followed)
        process.stdout.close()
        process.send_signal(signal.SIGHUP)
        process.wait(timeout=60)
    finally:
        process.kill()
        cloud.end_trainings()
    assert _TPU_DELETE in cloud.calls()
    assert not (cloud.folder / "host-0").exists()


def test_dropped_connections_cost_nothing_but_time(tmp_path, checkout):
    # Of installing, then of following and of asking, and of following again.
    cloud = Cloud(tmp_path, checkout, ssh=[255, 0, 0, 255, 255, 255])
    code, output = cloud.submit(*TPU)
    assert code == 0, output
    assert cloud.calls()[3:] == [
        *(_TPU_COPY, f"{_TPU_ALL} <install>", f"{_TPU_ALL} <install>"),
        *(f"{_TPU_ALL} <start>", *_TPU_WAIT, _TPU_STATE, *_TPU_WAIT),
        *(_TPU_FOLLOW, _TPU_DELETE),
    ]
    assert output.count("training, which ends with 0\n") == 1


def test_state_that_cannot_be_asked_for_is_asked_for_again(tmp_path, checkout):
    # The first one asks whether the name is free, and would be the user's mistake.
    cloud = Cloud(tmp_path, checkout, state=[0, 1, 1, 0])
    code, output = cloud.submit(*TPU)
    assert code == 0, output
    assert cloud.calls()[1:5] == [_TPU_CREATE, *[_TPU_STATE] * 3]


def test_gcloud_that_is_not_logged_in_is_no_machine_to_delete(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, state=[1])
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert "error: could not ask how the TPU is: ERROR: (gcloud) There was a" in output
    assert cloud.calls() == [_TPU_STATE]


@pytest.mark.parametrize(
    ("states", "first_host_decides", "verdict"),
    [
        (["running", "running"], False, executor.Verdict.RUNNING),
        (["0", "running"], False, executor.Verdict.RUNNING),
        (["0", "0"], False, executor.Verdict.DONE),
        (["running", "0", "running"], True, executor.Verdict.DONE),
        (["0", "75", "134"], True, executor.Verdict.DONE),
        (["75", "running"], False, executor.Verdict.RESUMABLE),
        (["lost", "running"], True, executor.Verdict.RESUMABLE),
        (["143", "0"], False, executor.Verdict.RESUMABLE),
    ],
)
def test_verdict_on_what_the_hosts_say(states, first_host_decides, verdict):
    assert executor.judge(states, first_host_decides) is verdict


@pytest.mark.parametrize("states", [["0", "1"], ["75", "2"], ["running", "137"]])
def test_one_failed_host_fails_the_run(states):
    with pytest.raises(executor.CloudError, match="the training failed with exit code"):
        executor.judge(states, first_host_decides=False)


def test_pauses_before_a_restart_grow_while_the_machine_is_there(monkeypatch):
    """A storage that is away would use up all restarts at once."""
    pauses, results = [], iter([True] * 25 + [False])
    condition = plans.Condition.READY
    monkeypatch.setattr(executor, "_needs_restart", lambda *_: next(results))
    monkeypatch.setattr(executor, "_condition", lambda *_: condition)
    monkeypatch.setattr(executor, "_succeed", lambda _: True)
    monkeypatch.setattr(executor, "_say", lambda _: None)
    monkeypatch.setattr(executor, "time", types.SimpleNamespace(sleep=pauses.append))
    plan = types.SimpleNamespace(machines=None, stop=(), start=())
    options = executor.Options(
        max_restarts=25, keep=False, queue_hours=1.0, poll_seconds=30.0
    )
    executor._run_to_the_end(plan, options)
    assert pauses == [*range(30, 601, 30), 600, 600, 600, 600, 600]


def test_failed_installation_deletes_the_machine(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout, ssh=[1, 1])
    code, output = cloud.submit(*TPU)
    assert code == 1
    assert "error: could not unpack it and install the pinned packages" in output
    assert cloud.calls()[-1] == _TPU_DELETE


def test_keep_leaves_the_machine_and_says_how_to_delete_it(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout)
    code, output = cloud.submit(*TPU, "--keep")
    assert code == 0, output
    assert _TPU_DELETE not in cloud.calls()
    assert "gcloud compute tpus tpu-vm delete night \\\n" in output


def test_delete_only_makes_no_other_call(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout)
    (cloud.folder / "words.json").write_text('["READY"]')
    code, output = cloud.submit(*TPU, "--delete_only")
    assert code == 0, output
    assert cloud.calls() == [_TPU_DELETE]


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for a minute"
        time.sleep(0.05)


# ---- The dry run ----


def _dry_run(capsys, checkout, *arguments: str) -> str:
    binaries.run(
        submit,
        f"--source={checkout}",
        f"--config={checkout}/configs/tiny.py",
        *FOLDERS,
        *arguments,
    )
    return capsys.readouterr().out


def test_dry_run_prints_the_calls_that_execute_makes(
    tmp_path, checkout, capsys, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    printed = _dry_run(capsys, checkout, *TPU)
    # A shell runs what is printed, without the restart's call.
    cloud = Cloud(tmp_path, checkout)
    subprocess.run(
        ["bash", "-e", "-c", re.sub(r"gcloud [^\n]*<<.*", "", printed)],
        env={
            **os.environ,
            "PATH": f"{cloud.programs}:{os.environ['PATH']}",
            "FAKE_CLOUD": str(cloud.folder),
            "FAKE_HOSTS": "1",
        },
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert cloud.calls() == [
        *(_TPU_CREATE, _TPU_STATE, *_TPU_PREPARE, *_TPU_WAIT),
        *(f"{_TPU_ALL} <stop>", _TPU_DELETE),
    ]


def test_dry_run_needs_no_gcloud_and_says_that_it_costs(capsys, checkout, monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("git")))
    monkeypatch.setattr(submit.shutil, "which", lambda name: None)
    printed = _dry_run(capsys, checkout, *POD)
    assert printed.splitlines()[:3] == [
        "# Dry run: nothing is created. With --execute, these calls create",
        "# a TPU v3-32 (4 hosts) called night in europe-west4-a.",
        "# That costs money from its creation until it is deleted.",
    ]
    # From which the peak of its chips follows.
    assert "TPU_ACCELERATOR_TYPE=v3-32" in printed


def test_name_is_made_of_recipe_and_machine(capsys, checkout):
    printed = _dry_run(capsys, checkout, "--tpu_type=v5litepod-16", "--zone=z")
    assert "gcloud compute tpus tpu-vm create tiny-v5litepod-16 \\\n" in printed


# ---- Mistakes ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --tpu_type or --gpu_type; received neither"),
        ([*TPU, "--gpu_type=nvidia-l4"], "or --gpu_type; received both"),
        (["--tpu_type=v3-8"], "--zone must name the machine's zone"),
        (["--tpu_type=v5e-8", "--zone=z"], "received 'v5e-8'. The nearest is 'v"),
        (["--gpu_type=h100", "--zone=z"], "--gpu_type must be one of nvidia-tesla-t4"),
        ([*GPU, "--num_gpus=3"], "--num_gpus must be one of 1, 2, 4, 8 for nvidia-l4"),
        ([*GPU, "--queued"], "--queued is for TPUs"),
        ([*TPU, "--poll_seconds=nan"], "must be a number of seconds; received nan"),
        ([*TPU, "--name=Night"], "--name must be 1 to 63 lower-case letters"),
        ([*TPU, "--model_dir=run"], "--model_dir must begin with gs://"),
        ([*TPU, "--data_dir=/d"], "--data_dir must begin with gs://"),
        ([*TPU, "--model_dir=gs://BUCKET/run"], "--model_dir has 'BUCKET', and such"),
        ([*TPU, "--data_dir=gs://BUCKET"], "capital letters: replace it with yours"),
        ([*TPU, "--project=PROJECT"], "--project has 'PROJECT', and such names of"),
        (["--tpu_type=v3-8", "--zone=ZONE"], "--zone has 'ZONE', and such names of"),
        ([*TPU, "--set=model.num_layer=2"], "nearest valid one is 'model.num_layers'"),
        ([*TPU, "--source=/"], "clone the project and pass --source=CLONE"),
    ],
)
def test_mistakes_are_named_before_anything_costs(capsys, checkout, arguments, message):
    given = [f"--source={checkout}", *FOLDERS, "--config=demo", *arguments]
    assert message in binaries.error_of(capsys, submit, *given)


@pytest.mark.parametrize("more", [[], ["--set=train.stages=[]"]])
def test_nothing_is_rented_for_a_recipe_that_nobody_chose(capsys, checkout, more):
    given = [f"--source={checkout}", *FOLDERS, *TPU, *more]
    error = binaries.error_of(capsys, submit, *given)
    assert error.startswith("--config must name a recipe"), error


@pytest.mark.parametrize("in_git", [False, True])
def test_outside_a_checkout_one_line_says_what_to_do(
    capsys, tmp_path, monkeypatch, in_git
):
    if in_git:  # of another project
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, timeout=60)
    monkeypatch.chdir(tmp_path)
    error = binaries.error_of(capsys, submit, *TPU, *FOLDERS, "--config=demo")
    assert error == (
        "submit sends the source code of a git checkout of the project, which "
        f"{tmp_path} is not: clone the project and pass --source=CLONE"
    )
    given = f"--source={tmp_path}", "--config=demo"
    assert binaries.error_of(capsys, submit, *TPU, *FOLDERS, *given) == error


def test_source_is_the_checkout_with_the_current_directory(
    capsys, checkout, monkeypatch
):
    monkeypatch.chdir(checkout / "tests")
    binaries.run(submit, *TPU, *FOLDERS, "--config=tiny")
    assert "albert_tf.pretrain --config=configs/tiny.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "sent"),
    [
        ("tiny", "configs/tiny.py"),
        ("configs/tiny.py", "configs/tiny.py"),
        # One of the installed package that this checkout lacks.
        ("demo", "submitted/demo.py"),
        ("configs/demo.py", "submitted/demo.py"),
    ],
)
def test_recipes_have_names_and_paths_as_elsewhere(
    capsys, checkout, tmp_path, monkeypatch, config, sent
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = [f"--source={checkout}", f"--config={config}"]
    binaries.run(submit, *TPU, *FOLDERS, *given)
    assert f"albert_tf.pretrain --config={sent} " in capsys.readouterr().out
    (packed,) = tmp_path.glob("albert_tf-*.tar.gz")
    with tarfile.open(packed) as archive:
        assert sent in archive.getnames()


def test_missing_gcloud_is_named(capsys, checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = binaries.error_of(capsys, submit, *TPU, *FOLDERS, "--execute")
    assert error.startswith("--execute needs gcloud on PATH")


# ---- Types of machines ----


@pytest.mark.parametrize(
    ("name", "num_hosts", "runtime_version"),
    [
        ("v2-8", 1, "tpu-ubuntu2204-base"),
        ("v3-8", 1, "tpu-ubuntu2204-base"),
        ("v3-32", 4, "tpu-ubuntu2204-base"),
        ("v4-8", 1, "tpu-ubuntu2204-base"),
        ("v4-16", 2, "tpu-ubuntu2204-base"),
        ("v5litepod-8", 1, "v2-alpha-tpuv5-lite"),
        ("v5litepod-16", 4, "v2-alpha-tpuv5-lite"),
        ("v5p-8", 1, "v2-alpha-tpuv5"),
        ("v5p-64", 8, "v2-alpha-tpuv5"),
        ("v6e-1", 1, "v2-alpha-tpuv6e"),
        ("v6e-8", 1, "v2-alpha-tpuv6e"),
        ("v6e-256", 64, "v2-alpha-tpuv6e"),
    ],
)
def test_types_of_tpus_have_hosts_and_images(name, num_hosts, runtime_version):
    assert machines.tpu_type(name) == machines.TpuType(name, num_hosts, runtime_version)


# ---- What runs on a host ----


def _bash(script: str, home: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def host(tmp_path) -> pathlib.Path:
    """The home of a host whose python writes down what it got; checks find nothing."""
    programs = tmp_path / host_scripts.RUN_DIR / "venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / host_scripts.RUN_DIR / "source").mkdir()
    (programs / "python").write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "print(json.dumps([sys.argv[1:], os.environ.get('TF_CONFIG')]))\n"
        "sys.exit(75 if sys.argv[3] == 'albert_tf.pretrain' else 0)\n"
    )
    (programs / "python").chmod(0o755)
    return tmp_path


def test_quotes_spaces_and_dollars_reach_the_training_as_they_are(host):
    overrides = ('text.a=it\'s "so"', "text.b=$HOME `date` \\\\n *", "text.c=a\tb")
    training = plans.Training("configs/a b.py", overrides, "gs://d", "gs://m", "x")
    gpus = gpu_plan.GpuHosts("n", "z", "", "g", 1, 2, "m", "f", "p", False)
    command = gpu_plan.plan(gpus, training).start[1]
    # First through the shell that the user pastes it into, then through the host's.
    [*_, argument] = shlex.split(command.shell().replace("\\\n", ""))
    assert _bash(argument.removeprefix("--command="), host).returncode == 0
    log = host / host_scripts.RUN_DIR / "log"
    _wait_for(lambda: log.exists() and log.read_text().count("\n") == 2)
    (checks, _), (arguments, tf_config) = map(json.loads, log.read_text().splitlines())
    assert checks == [
        *("-u", "-m", "albert_tf.doctor", "--data_dir=gs://d", "--model_dir=gs://m"),
        "--expect_gpus=1",
    ]
    assert arguments == [
        *("-u", "-m", "albert_tf.pretrain", "--config=configs/a b.py"),
        *(f"--set={override}" for override in overrides),
        *("--data_dir=gs://d", "--model_dir=gs://m", "--strategy=multi_worker"),
    ]
    assert json.loads(tf_config)["task"] == {"type": "worker", "index": 1}


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_value_of_several_lines_is_refused(end):
    """A line of it could end the file that the script writes on the host."""
    value = f"--set=text.field=a{end}END_OF_RUN_SH{end}touch x"
    for given in (([], [value], {}), ([value], [], {}), ([], [], {"A": value})):
        with pytest.raises(ValueError, match="must be a single line; received '--set"):
            host_scripts.start(*given)


def test_status_is_the_exit_code_running_or_lost(host):
    folder = host / host_scripts.RUN_DIR
    status = f"{host_scripts.STATUS} "
    assert _bash(host_scripts.status(), host).stdout == f"{status}lost\n"
    assert _bash(host_scripts.start([], [], {}), host).returncode == 0
    _wait_for((folder / "exit_code").exists)
    assert _bash(host_scripts.status(), host).stdout == f"{status}75\n"
    (folder / "venv" / "bin" / "python").write_text("#!/bin/sh\nsleep 60\n")
    assert _bash(host_scripts.start([], [], {}), host).returncode == 0
    try:
        assert _bash(host_scripts.status(), host).stdout == f"{status}running\n"
        again = _bash(host_scripts.start([], [], {}), host)
        assert again.stdout == "already running\n"
    finally:
        _bash(host_scripts.stop(), host)
    assert _bash(host_scripts.status(), host).stdout == f"{status}lost\n"


def test_run_of_an_earlier_boot_is_lost_though_its_number_is_in_use(host):
    own_group = os.getpgid(0)
    (host / host_scripts.RUN_DIR / "process").write_text(f"{own_group} another-boot\n")
    printed = _bash(host_scripts.status(), host).stdout
    assert printed == f"{host_scripts.STATUS} lost\n"


@pytest.mark.slow
def test_stop_gives_time_to_save_and_then_kills(host):
    folder = host / host_scripts.RUN_DIR
    python = folder / "venv" / "bin" / "python"
    checks = '#!/bin/bash\n[ "$3" = albert_tf.doctor ] && exit\n'
    python.write_text(f"{checks}trap 'echo saved > saved' TERM\nsleep 60 & wait\n")
    _bash(host_scripts.start([], [], {}), host)
    _wait_for(lambda: _is_waiting(folder))
    assert _bash(host_scripts.stop(seconds=10), host).returncode == 0
    assert (folder / "source" / "saved").read_text() == "saved\n"
    python.write_text(f"{checks}trap '' TERM\nwhile :; do sleep 1; done\n")
    _bash(host_scripts.start([], [], {}), host)
    time.sleep(0.5)
    assert _bash(host_scripts.stop(seconds=1), host).returncode == 0
    assert _bash(host_scripts.status(), host).stdout.endswith("lost\n")


def _is_waiting(folder: pathlib.Path) -> bool:
    group = (folder / "process").read_text().split()[0]
    listed = subprocess.run(
        ["ps", "-o", "args=", "-g", group], capture_output=True, text=True, timeout=60
    )
    return "sleep 60" in listed.stdout


# ---- The code, and what is installed ----


def test_archive_holds_tracked_product_files_and_the_recipe(tmp_path, checkout):
    recipe = tmp_path / "mine.py"
    recipe.write_text("# mine\n")
    packed = source.pack(checkout, tmp_path, str(recipe))
    with tarfile.open(packed) as archive:
        assert archive.getnames() == [
            "albert_tf/pretrain.py",
            "configs/tiny.py",
            "constraints.txt",
            "requirements-tpu.txt",
            "requirements.txt",
            "submitted/mine.py",
        ]
    assert source.config_path(checkout, str(recipe)) == "submitted/mine.py"
    assert source.pack(checkout, tmp_path, str(recipe)) == packed
    assert packed.read_bytes()[4:8] == bytes(4)  # gzip's time, in equal archives too
    (checkout / "albert_tf" / "pretrain.py").write_text("# changed\n")
    assert source.pack(checkout, tmp_path, str(recipe)) != packed


def test_a_link_in_the_directory_of_the_archive_is_not_followed(tmp_path, checkout):
    """Neither one of the final name, nor one of a name that could be foreseen."""
    packed = source.pack(checkout, tmp_path)
    content = packed.read_bytes()
    target = tmp_path / "precious"
    target.write_text("mine")
    packed.unlink()
    packed.symlink_to(target)
    packed.with_name(f"{packed.name}.tmp{os.getpid()}").symlink_to(target)
    assert source.pack(checkout, tmp_path) == packed
    assert target.read_text() == "mine"
    assert not packed.is_symlink() and packed.read_bytes() == content


def test_gpu_hosts_install_the_pinned_tensorflow_with_cuda(tmp_path, checkout):
    cloud = Cloud(tmp_path, checkout)
    code, output = cloud.submit(*GPU, "--keep")
    assert code == 0, output
    folder = cloud.folder / "host-0"
    installed = fake_gcloud.read_lines(folder / "installed.jsonl")
    assert installed[-1] == [
        *("pip", "install", "--quiet", "--python=../venv/bin/python"),
        *("-r", "requirements-gpu.txt", "-c", "constraints.txt"),
    ]
    text = (folder / "albert_tf_run" / "source" / "requirements-gpu.txt").read_text()
    assert text == "numpy==1.0\ntensorflow[and-cuda]==2.20.0  # engine\n"


def test_tpu_requirements_are_all_that_the_product_pulls_in():
    wanted = {"tensorflow-tpu": "2.20.0", "libtpu": "0.0.31"}
    pending = [*_pins("requirements.txt")]
    while pending:
        name = _normal(pending.pop())
        if name in wanted:
            continue
        distribution = importlib.metadata.distribution(name)
        wanted[name] = distribution.version
        for text in distribution.requires or ():
            requirement = requirements.Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    del wanted["tensorflow"]  # its files would overwrite those of tensorflow-tpu
    assert _pins("requirements-tpu.txt") == wanted


def _pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text()
    found = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.M)
    return {_normal(key): version for key, version in found}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_submit_starts_without_tensorflow():
    program = "import sys; from albert_tf import submit; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = ast.literal_eval(done.stdout)
    assert "albert_tf.submit" in loaded
    assert not {"tensorflow", "numpy"} & set(loaded)
