"""Data preparation by a Dask cluster of separate processes on this machine."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import distributed
import pytest

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from data_prep.pipeline import (
    block_processor,
    dask_executor,
    local_run,
    program,
    work_dir,
    worker_pool,
)
from data_prep.reading import blocks as blocks_lib
from tests.support import small_run

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[3]
SETTINGS = (
    "model.vocab_size=4000",
    "data.max_seq_length=32",
    "data.dupe_factor=2",
    "data.heldout_rate=0.2",
    "data.min_shards=3",
    "text.drop_exact_duplicates=true",
)


@pytest.fixture(scope="module")
def cluster():
    """Two workers, each a process that is started again when it is killed."""
    with (
        _python_path(str(ROOT)),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as started,
    ):
        yield started


@contextlib.contextmanager
def _python_path(path: str):
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path
    yield
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Six files in groups of about two, each of some blocks."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(5):
        path = folder / f"{number}.txt"
        small_run.write_corpus(path, num_documents=20, seed=number)
    small_run.write_corpus(folder / "5.txt", num_documents=20, seed=1)  # duplicates
    size = (folder / "0.txt").stat().st_size
    monkeypatch.setattr(blocks_lib, "GROUP_BYTES", 2 * size)
    monkeypatch.setattr(block_processor, "MAX_BLOCK_BYTES", size // 3)
    return folder


def _run(corpus, output, scheduler=""):
    return local_run.create_pretraining_data(
        f"{corpus}/*.txt",
        str(small_run.VOCAB),
        str(output),
        config_io.override(config_lib.Config(), list(SETTINGS)),
        dask_scheduler=scheduler,
    )


def _contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_a_cluster_makes_the_same_bytes(corpus, tmp_path, cluster, capsys):
    _run(corpus, tmp_path / "here")
    _run(corpus, tmp_path / "there", cluster.scheduler_address)
    found = _contents(tmp_path / "there")
    assert found == _contents(tmp_path / "here")
    assert sum("-of-" in name for name in found) == 4
    said = capsys.readouterr().err
    assert "Dask cluster with 2 workers, dashboard: " in said
    assert [path.name for path in (tmp_path / "there").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("number", [3, 9, 14])
def test_a_worker_that_is_killed_is_replaced(
    corpus, tmp_path, cluster, monkeypatch, number
):
    _run(corpus, tmp_path / "here")
    workers = list(cluster.workers.values())
    before = [worker.pid for worker in workers]
    assert len(set(before)) == 2
    submit, submitted = dask_executor.DaskExecutor.submit, []

    def submit_and_kill(self, task):
        future = submit(self, task)
        submitted.append(task[0])
        if len(submitted) == number:
            os.kill(before[0], signal.SIGKILL)
        return future

    monkeypatch.setattr(dask_executor.DaskExecutor, "submit", submit_and_kill)
    _run(corpus, tmp_path / "there", cluster.scheduler_address)
    assert _contents(tmp_path / "there") == _contents(tmp_path / "here")
    assert len(submitted) >= 20
    deadline = time.monotonic() + 600  # for one that hangs
    while workers[0].pid in (before[0], None) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers[0].pid not in (before[0], None)
    assert workers[1].pid == before[1]


def test_a_worker_that_is_killed_while_runs_are_merged_changes_nothing(
    corpus, tmp_path, cluster, monkeypatch
):
    _run(corpus, tmp_path / "here")
    monkeypatch.setattr(work_dir, "BLOCKS_PER_RUN", 2)
    submit, submitted = dask_executor.DaskExecutor.submit, []
    names: list[str] = []

    def submit_and_kill(self, task):
        future = submit(self, task)
        submitted.append(task[0])
        if submitted.count("merge_run") == 3 and "kill" not in submitted:
            submitted.append("kill")
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        if task[0] == "make_shard" and not names:
            names.extend(os.listdir(tmp_path / "there" / ".unfinished"))
        return future

    monkeypatch.setattr(dask_executor.DaskExecutor, "submit", submit_and_kill)
    _run(corpus, tmp_path / "there", cluster.scheduler_address)
    assert _contents(tmp_path / "there") == _contents(tmp_path / "here")
    num_blocks, num_runs = (
        sum(name.endswith(end) for name in names) for end in (".documents", ".merged")
    )
    assert num_runs == -(-num_blocks // 2) >= 5
    assert submitted.index("kill") < submitted.index("make_shard")


def test_a_task_that_the_scheduler_forgets_is_done_again(
    corpus, tmp_path, cluster, monkeypatch
):
    _run(corpus, tmp_path / "here")
    monkeypatch.setattr(worker_pool, "_CHECK_SECONDS", 0.2)
    submit, submitted = dask_executor.DaskExecutor.submit, []

    def submit_and_forget(self, task):
        submitted.append(task[0])
        if len(submitted) != 5:
            return submit(self, task)
        self._in_flight["unknown"] = concurrent.futures.Future()
        return self._in_flight["unknown"]

    monkeypatch.setattr(dask_executor.DaskExecutor, "submit", submit_and_forget)
    _run(corpus, tmp_path / "there", cluster.scheduler_address)
    assert _contents(tmp_path / "there") == _contents(tmp_path / "here")


# Kills itself when the first group of files is done.
_KILLED = """
import os, signal, sys
from albert_tf.core import config, config_io
from data_prep.pipeline import block_processor, local_run, work_dir
from data_prep.reading import blocks
corpus, vocab, output, scheduler, group, block, *settings = sys.argv[1:]
blocks.GROUP_BYTES, block_processor.MAX_BLOCK_BYTES = int(group), int(block)
write_group = work_dir.WorkDir.write_group
def killed(self, *arguments):
    write_group(self, *arguments)
    os.kill(os.getpid(), signal.SIGKILL)
work_dir.WorkDir.write_group = killed
local_run.create_pretraining_data(
    corpus, vocab, output, config_io.override(config.Config(), settings),
    dask_scheduler=scheduler,
)
"""


def test_a_command_that_was_killed_resumes(corpus, tmp_path, cluster, capsys):
    _run(corpus, tmp_path / "here")
    output, scheduler = tmp_path / "there", cluster.scheduler_address
    sizes = str(blocks_lib.GROUP_BYTES), str(block_processor.MAX_BLOCK_BYTES)
    words = (f"{corpus}/*.txt", str(small_run.VOCAB), str(output), scheduler, *sizes)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, *words, *SETTINGS], cwd=ROOT, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (output / "manifest.json").exists()
    num_done = len(list(output.glob(".unfinished/*.documents")))
    assert num_done > 0
    capsys.readouterr()
    _run(corpus, output, scheduler)
    assert "resuming: " in capsys.readouterr().err
    assert _contents(output) == _contents(tmp_path / "here")


def test_workers_with_another_program_are_refused(
    corpus, tmp_path, cluster, monkeypatch
):
    found = program.describe()
    versions = {**found["versions"], "numpy": "1.0"}
    for changed, named in (
        ({"versions": versions}, "numpy .* instead of 1.0"),
        ({"program": "0" * 64}, "other code of data_prep"),
    ):
        other = {**found, **changed}
        monkeypatch.setattr(program, "describe", lambda other=other: other)
        with pytest.raises(ValueError, match=named):
            _run(corpus, tmp_path / "out", cluster.scheduler_address)


def test_workers_that_do_not_see_the_directory_are_refused(cluster, tmp_path):
    with pytest.raises(ValueError, match=f"has no directory {tmp_path}/none"):
        dask_executor.DaskExecutor(
            cluster.scheduler_address, None, str(tmp_path / "none"), 1
        )


@contextlib.contextmanager
def _by_commands(folder: pathlib.Path, python_path: str):
    """A scheduler and a worker as a user starts them; yields both, and the address."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": python_path}

    def start(name, *flags):
        words = [sys.executable, "-m", f"distributed.cli.dask_{name}"]
        return subprocess.Popen(
            [*words, f"--scheduler-file={file}", "--host=127.0.0.1", *flags],
            cwd=folder,
            env=environment,
            stderr=subprocess.DEVNULL,
        )

    started = []
    try:
        started.append(start("scheduler", "--port=0", "--no-dashboard"))
        started.append(start("worker", "--nthreads=1", "--no-dashboard"))
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_text().endswith("}")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield (*started, json.loads(file.read_text())["address"])
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(timeout=30)


def test_workers_without_the_program_are_refused(corpus, tmp_path):
    with (
        _by_commands(tmp_path, "") as (_, _, address),
        pytest.raises(ValueError, match="cannot take part: .* has no package data_"),
    ):
        _run(corpus, tmp_path / "out", address)


def test_a_scheduler_that_ends_is_an_error_from_which_a_run_resumes(
    corpus, tmp_path, monkeypatch, capsys
):
    _run(corpus, tmp_path / "here")
    submit, submitted = dask_executor.DaskExecutor.submit, []
    with _by_commands(tmp_path, str(ROOT)) as (scheduler, _, address):

        def submit_and_kill(self, task):
            submitted.append(task)
            if len(submitted) == 8:
                scheduler.kill()
                # Not before: the worker may take longer to come.
                monkeypatch.setattr(dask_executor, "PATIENCE_SECONDS", 2.0)
            return submit(self, task)

        monkeypatch.setattr(dask_executor.DaskExecutor, "submit", submit_and_kill)
        with pytest.raises(OSError, match="the Dask scheduler is lost.* same command"):
            _run(corpus, tmp_path / "there", address)
    capsys.readouterr()
    _run(corpus, tmp_path / "there")
    assert "resuming: " in capsys.readouterr().err
    assert _contents(tmp_path / "there") == _contents(tmp_path / "here")


def test_an_address_without_a_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr(dask_executor, "PATIENCE_SECONDS", 1.0)
    with pytest.raises(ValueError, match="--dask_scheduler must be the address"):
        dask_executor.DaskExecutor("127.0.0.1:9")


def test_a_cluster_without_workers_is_an_error_after_a_while(monkeypatch):
    monkeypatch.setattr(dask_executor, "PATIENCE_SECONDS", 1.0)
    with (
        distributed.LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as empty,
        pytest.raises(OSError, match="no worker for 1 seconds; start some"),
    ):
        dask_executor.DaskExecutor(empty.scheduler_address)
