"""gs:// paths: TensorFlow's own client against a server on loopback.

Where the machine allows no namespaces, one line says so and nothing is tested.
"""

import concurrent.futures
import dataclasses
import pathlib
import shutil
import signal
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (brings the operations of the tokenizer)

from albert_tf.data import schema
from tests.support import gcs_cloud, gcs_server, small_run, training_processes

if reason := gcs_cloud.why_not():
    pytest.skip(f"no private network for gs://: {reason}", allow_module_level=True)

EVERY_FAULT = {*gcs_server.FAULTS, gcs_server.HALF}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return gcs_server.make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def cloud(tmp_path, certificate):
    return gcs_cloud.Cloud(tmp_path / "cloud", certificate)


# ---- Files ----

# Does the same in both folders and compares what each step gave.
_FILES = r"""
import os
import sys
import tensorflow as tf

gfile = tf.io.gfile
data = bytes(range(256)) * 1200


def write(path, mode, *pieces):
    with gfile.GFile(path, mode) as file:
        for piece in pieces:
            file.write(piece)
            if mode == "ab":
                file.flush()  # the whole file goes out again
    return gfile.stat(path).length


def read(path, mode="rb", offset=0, size=-1):
    with gfile.GFile(path, mode) as file:
        file.seek(offset)
        return file.read(size)


def events(path):
    writer = tf.summary.create_file_writer(path)
    with writer.as_default():
        for step in range(4):
            tf.summary.scalar("loss", 0.5 * step, step)
            writer.flush()
    writer.close()
    (name,) = gfile.glob(path + "/events*")
    records = [record.numpy() for record in tf.data.TFRecordDataset(name)]
    found = [tf.compat.v1.Event.FromString(record) for record in records]
    return [
        (event.step, tf.make_ndarray(value.tensor).item())
        for event in found
        for value in event.summary.value
    ]


def error(function, *arguments):
    try:
        return function(*arguments)
    except tf.errors.OpError as failure:
        return type(failure).__name__


def steps(root, is_calm):
    yield gfile.exists(root + "/a/b"), gfile.isdir(root + "/a")
    yield gfile.makedirs(root + "/a/deep"), gfile.isdir(root + "/a/deep")
    yield write(root + "/a/b", "wb", data, b"end"), write(root + "/a/empty", "wb", b"")
    yield read(root + "/a/b"), read(root + "/a/empty")
    yield read(root + "/a/b", offset=70_001, size=1000),
    yield read(root + "/a/b", offset=307_203),  # its end
    yield write(root + "/a/b", "ab", b"more", b"and more"), read(root + "/a/b")[-20:]
    yield write(root + "/a/new", "ab", b"begun"), read(root + "/a/new")
    yield write(root + "/a/b", "wb", b"shorter"), read(root + "/a/b")
    yield error(read, root + "/none"),
    yield gfile.copy(root + "/a/b", root + "/a/c"), read(root + "/a/c")
    yield error(gfile.copy, root + "/a/new", root + "/a/c"), read(root + "/a/c")
    yield gfile.rename(root + "/a/new", root + "/a/c", overwrite=True),
    yield read(root + "/a/c"), gfile.exists(root + "/a/new")
    yield gfile.makedirs(root + "/many"),
    for number in range(7):
        yield write(f"{root}/many/{number}", "w", f"line {number}\n"),
    yield sorted(name.rstrip("/") for name in gfile.listdir(root)),
    yield sorted(gfile.listdir(root + "/many")), gfile.isdir(root + "/many/0")
    found = sorted(gfile.glob(root + "/many/[2-5]"))
    yield [path.removeprefix(root) for path in found],
    yield gfile.remove(root + "/many/3"), gfile.exists(root + "/many/3")
    yield events(root + "/events"),
    if is_calm:
        yield error(gfile.remove, root + "/none"),
        yield gfile.rename(root + "/many", root + "/moved"), gfile.isdir(root + "/many")
        yield sorted(gfile.listdir(root + "/moved")),
        yield gfile.rmtree(root + "/moved"), gfile.exists(root + "/moved/6")


os.mkdir(sys.argv[1])
is_calm = sys.argv[2] == "calm"
local, remote = steps(sys.argv[1], is_calm), steps("gs://bucket/x", is_calm)
for number, (expected, found) in enumerate(zip(local, remote, strict=True)):
    if found != expected:
        sys.exit(f"step {number}: {str(found)[:200]} and not {str(expected)[:200]}")
print("all", number + 1)
"""


@pytest.mark.slow
def test_files_behave_as_local_ones_in_pages_of_three(cloud, tmp_path):
    outcome = cloud.run("-c", _FILES, tmp_path / "x", "calm", page_size=3)
    assert (outcome.code, outcome.output[-7:]) == (0, "all 31\n"), outcome.output
    assert not outcome.faults
    assert {"upload", "put", "read", "list", "stat", "rewrite"} <= set(outcome.requests)


@pytest.mark.slow
def test_files_behave_as_local_ones_while_everything_fails_now_and_then(
    cloud, tmp_path
):
    """A third of the requests, and one answer that never comes.

    Left out are folders' renaming and removal, where one busy answer makes TensorFlow
    take the folder for none, and the removal of what is not there, which passes for
    done after one. Nor does it keep what it knows of files: after a removal whose
    answer was lost it would see the file for some seconds more.
    """
    outcome = cloud.run(
        *("-c", _FILES, tmp_path / "x", "rough"),
        environment={
            "GCS_REQUEST_IDLE_TIMEOUT_SECS": "1",
            "GCS_STAT_CACHE_MAX_AGE": "0",
        },
        rate=0.33,
        seed=3,
        rules=[
            {"match": "GET .*/x/a/b", "every": 5, "fault": gcs_server.STALL},
            # The first upload is the large one: a half, a quarter, the rest.
            {"match": "PUT .*/session/", "times": 2, "fault": gcs_server.HALF},
        ],
    )
    assert (outcome.code, outcome.output[-7:]) == (0, "all 27\n"), outcome.output
    assert set(outcome.faults) == EVERY_FAULT | {gcs_server.STALL}
    assert outcome.requests["ask"] > 1  # uploads that went on from their half


# ---- Leases ----

_LEASES = r"""
import sys
import threading
from albert_tf.checkpoints import lease as lease_lib
from albert_tf.core import files, locks


class Clock(lease_lib.Clock):
    def sleep(self, seconds):
        super().sleep(seconds / 100)


def take(folder, start, won):
    lease = lease_lib.Lease(folder, 20.0, Clock())
    start.wait()
    try:
        lease.acquire(print)
    except locks.HeldError:
        return
    won.append(lease)


for number in range(12):
    folder, start, won = f"gs://bucket/{number}", threading.Barrier(2), []
    files.make_folder(folder)
    threads = [
        threading.Thread(target=take, args=(folder, start, won)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = files.names(folder)
    if len(won) != 1 or len(names) != 1 or not won[0].check():
        sys.exit(f"round {number}: {len(won)} leases, {names}")
    won[0].release()
    take(folder, threading.Barrier(1), won)
    if len(won) != 2 or len(files.names(folder)) != 1:
        sys.exit(f"round {number}: not taken after its release")
print("all 12")
"""


@pytest.mark.slow
def test_of_two_processes_that_start_together_one_gets_the_lease(cloud):
    outcome = cloud.run("-c", _LEASES, rate=0.2, page_size=1)
    assert (outcome.code, outcome.output[-7:]) == (0, "all 12\n"), outcome.output
    assert EVERY_FAULT <= set(outcome.faults)


# ---- Checks of a machine ----

_DOCTOR = (
    *("-m", "albert_tf.doctor", "--checks=storage,clock"),
    *("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run"),
)


@pytest.mark.slow
def test_doctor_writes_to_the_storage_and_leaves_nothing(cloud):
    (cloud.bucket / "records").mkdir()
    (cloud.bucket / "records" / "manifest.json").write_text("{}")
    outcome = cloud.run(*_DOCTOR)
    assert outcome.code == 0, outcome.output
    assert "--data_dir=gs://bucket/records: read in" in outcome.output
    assert "gs://bucket/run: written, read and removed in" in outcome.output
    assert "the storage of gs://bucket/run" in outcome.output  # the clock's line
    assert outcome.requests["upload"] == 1
    files = [path for path in cloud.bucket.rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["manifest.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "code", "remedy"),
    [("503", 75, "Try again later"), ("403", 1, "roles/storage.objectAdmin")],
)
def test_doctor_names_a_storage_that_refuses(cloud, fault, code, remedy):
    outcome = cloud.run(*_DOCTOR, rules=[{"match": ".", "times": 9999, "fault": fault}])
    assert outcome.code == code, outcome.output
    lines = [line for line in outcome.output.splitlines() if "FAILED   " in line]
    assert len(lines) == 2, outcome.output
    assert "--data_dir=gs://bucket/records, at the step: list: " in lines[0]
    assert "--model_dir=gs://bucket/run, at the step: write: " in lines[1]
    assert remedy in lines[1]


# ---- Pre-training ----

_SETTINGS = [f"--set={override}" for override in small_run.OVERRIDES]


def _pretrain(data_dir, model_dir):
    return (
        *("-m", "albert_tf.pretrain", *_SETTINGS),
        *(f"--data_dir={data_dir}", f"--model_dir={model_dir}"),
    )


_PREPARE_REMOTELY = (
    *("-m", "data_prep.create_pretraining_data", *_SETTINGS),
    *("--input=gs://bucket/*.txt", f"--vocab_model=gs://bucket/{small_run.VOCAB.name}"),
    "--output_dir=gs://bucket/records",
)
_REPORT = ("-m", "albert_tf.report", "gs://bucket/run")
_EXPORT = (
    *("-m", "albert_tf.export", "--model_dir=gs://bucket/run"),
    "--output_dir=gs://bucket/exported",
)
_BUSY = {"fault": "503"}
# Drawn by chance, it may miss the few uploads of a run.
_HALF_AN_UPLOAD = {"match": "PUT .*/session/", "fault": gcs_server.HALF}
# Of an outage that lasts longer than the retries.
_FEW_RETRIES = {"GCS_RETRY_CONFIG_MAX_RETRIES": "2"}


def _away(match: str, fault: str = "503") -> dict:
    return {"match": match, "times": 9999, "fault": fault}


_PRETRAIN_REMOTELY = _pretrain("gs://bucket/records", "gs://bucket/run")


@dataclasses.dataclass
class Runs:
    """A run in the cloud that was killed and went on, beside a local one."""

    cloud: gcs_cloud.Cloud
    local_records: pathlib.Path
    local: pathlib.Path
    prepared: gcs_cloud.Outcome
    killed: gcs_cloud.Outcome
    files_after_kill: dict[str, bytes]
    away_at_reading: gcs_cloud.Outcome
    away_at_saving: gcs_cloud.Outcome
    unsaved: pathlib.Path
    resumed: gcs_cloud.Outcome


@pytest.fixture(scope="module")
def runs(tmp_path_factory, certificate):
    folder = tmp_path_factory.mktemp("runs")
    records = small_run.write_records(folder)
    cloud = gcs_cloud.Cloud(folder / "cloud", certificate)
    shutil.copy(folder / "corpus.txt", cloud.bucket)
    shutil.copy(small_run.VOCAB, cloud.bucket)
    words = [sys.executable, *_pretrain(records, folder / "local")]
    with training_processes.running([words], folder / "log") as local:
        prepared = cloud.run(
            *_PREPARE_REMOTELY, f"--work_dir={folder / 'work'}", rate=0.2
        )
        assert prepared.code == 0, prepared.output
        killed = cloud.run(
            *_PRETRAIN_REMOTELY,
            rate=0.2,
            rules=[
                {"match": r"POST .*model\.ckpt-12\.index", "fault": gcs_server.KILL},
                _HALF_AN_UPLOAD,
            ],
        )
        paths = [p for p in (cloud.bucket / "run").iterdir() if p.is_file()]
        after_kill = {path.name: path.read_bytes() for path in paths}
        away_at_reading = cloud.run(
            *_PRETRAIN_REMOTELY,
            environment=_FEW_RETRIES,
            rules=[_away("GET storage.googleapis.com/bucket/records/train")],
        )
        unsaved = folder / "unsaved"
        unsaved.mkdir()
        away_at_saving = cloud.run(
            *_PRETRAIN_REMOTELY,
            "--set=train.save_retry_seconds=0",
            environment={**_FEW_RETRIES, "TMPDIR": str(unsaved)},
            rules=[
                _away(r"POST .*model\.ckpt-12"),
                _away(r"POST .*metrics\.jsonl"),
            ],
        )
        resumed = cloud.run(
            *_PRETRAIN_REMOTELY, rate=0.2, seed=2, rules=[_HALF_AN_UPLOAD]
        )
        assert training_processes.exit_codes(local) == [0]
    return Runs(
        cloud=cloud,
        local_records=records,
        local=folder / "local",
        prepared=prepared,
        killed=killed,
        files_after_kill=after_kill,
        away_at_reading=away_at_reading,
        away_at_saving=away_at_saving,
        unsaved=unsaved,
        resumed=resumed,
    )


def _tensors(model_dir: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(model_dir / "model.ckpt-12"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }


@pytest.mark.slow
def test_records_made_in_the_cloud_have_the_same_bytes(runs):
    assert sum(runs.prepared.faults.values()) > 3
    expected = {path.name: path.read_bytes() for path in runs.local_records.iterdir()}
    remote = runs.cloud.bucket / "records"
    assert {path.name: path.read_bytes() for path in remote.iterdir()} == expected


@pytest.mark.slow
def test_a_run_killed_while_it_saves_leaves_the_checkpoint_before(runs):
    assert runs.killed.code == 128 + signal.SIGKILL
    assert runs.killed.faults[gcs_server.KILL] == 1
    # The weights of step 12 had their place already, and nothing named them.
    assert {"model.ckpt-6.index", "model.ckpt-12.data-00000-of-00001"} <= set(
        runs.files_after_kill
    )
    assert (
        b'model_checkpoint_path: "model.ckpt-6"' in runs.files_after_kill["checkpoint"]
    )


def _last_line(outcome: gcs_cloud.Outcome) -> str:
    return outcome.output.rstrip().splitlines()[-1]


@pytest.mark.slow
def test_an_outage_while_records_are_read_ends_with_75(runs):
    assert runs.away_at_reading.code == 75
    last = _last_line(runs.away_at_reading)
    assert last.startswith("error: ") and "gs://bucket/records/train" in last
    assert last.endswith(
        "The storage cannot be reached; give the same command again later"
    )


@pytest.mark.slow
def test_an_outage_while_the_last_state_is_saved_ends_with_75_and_a_copy(runs):
    outcome = runs.away_at_saving
    assert outcome.code == 75 and outcome.faults["503"] > 6
    last = _last_line(outcome)
    assert last.startswith("error: the checkpoint gs://bucket/run/model.ckpt-12 could")
    (copy,) = runs.unsaved.glob("albert_tf-unsaved-*")
    assert f"The state of step 12 is in {copy}: copy its files to --model_dir" in last
    # The weights were there before the end; the names of files are those of the run.
    expected, found = _tensors(runs.local), _tensors(copy)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
    # Rows that could not be written ended nothing, and came with the next run.
    assert outcome.output.count("metrics.jsonl cannot be written: ") == 1


# Prints the exit code with which a run ends that cannot start.
_STARTS = r"""
import sys

from absl import flags

from albert_tf import finetune, pretrain

for name in ("a401", "a403", "a404", "a503"):
    for module in (pretrain, finetune):
        folders = [f"--data_dir=gs://bucket/{name}", "--model_dir=gs://bucket/new"]
        if module is finetune:
            folders.append(f"--init_checkpoint=gs://bucket/{name}")
        values = flags.FlagValues()
        module.define_flags(values)
        try:
            module.main(values([name, *folders]), values)
        except SystemExit as ended:
            print(f"{name}={ended.code}", flush=True)
"""


@pytest.mark.slow
def test_a_start_in_an_outage_ends_with_75_and_one_without_rights_with_1(cloud):
    outcome = cloud.run(
        *("-c", _STARTS),
        environment=_FEW_RETRIES,
        rules=[_away(f"/a{code}", str(code)) for code in (401, 403, 503)],
    )
    codes = [line for line in outcome.output.splitlines() if line[:1] == "a"]
    expected = ["a401=75", "a403=1", "a404=1", "a503=75"]
    assert codes == [code for code in expected for _ in range(2)], outcome.output


@pytest.mark.slow
def test_a_run_goes_on_among_faults_and_ends_bitwise_as_a_local_one(runs):
    assert runs.resumed.code == 0, runs.resumed.output
    for outcome in (runs.killed, runs.resumed):
        assert EVERY_FAULT <= set(outcome.faults)
    expected, found = _tensors(runs.local), _tensors(runs.cloud.bucket / "run")
    assert expected.keys() == found.keys() and len(expected) > 90
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)


@pytest.mark.slow
def test_metrics_and_summaries_are_those_of_a_local_run(runs):
    remote = runs.cloud.bucket / "run"
    rows = training_processes.computed_rows
    assert rows(remote) == rows(runs.local)
    for name in (schema.CONFIG_FILE, schema.VOCAB_FILE):
        assert (remote / name).read_bytes() == (runs.local / name).read_bytes()
    events = sorted((remote / "summaries" / "train").iterdir())
    steps = [
        tf.compat.v1.Event.FromString(record.numpy()).step
        for record in tf.data.TFRecordDataset([str(path) for path in events[-1:]])
    ]
    assert sorted(set(steps)) == [0, 8, 12]  # 0 is the file's own first record
    # Of the runs that were killed, could not save, and went on.
    assert len(events) == 3


# ---- After the run ----


@pytest.fixture(scope="module")
def afterwards(runs, certificate, tmp_path_factory):
    """Three commands at once, each on a copy of the bucket."""

    def run(name, *command, **plan):
        cloud = gcs_cloud.Cloud(tmp_path_factory.mktemp(name), certificate)
        shutil.copytree(runs.cloud.bucket, cloud.bucket, dirs_exist_ok=True)
        return name, (cloud.bucket, cloud.run(*command, **plan))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = [
            pool.submit(run, "report", *_REPORT, rate=0.2),
            # Without the cache of what is a folder each question for it goes out, and
            # every second one meets a busy server.
            pool.submit(
                run,
                "export",
                *_EXPORT,
                environment={"GCS_STAT_CACHE_MAX_AGE": "0"},
                rules=[{"match": "GET .*prefix=exp", "every": 2, "times": 999} | _BUSY],
            ),
            pool.submit(
                run,
                "pretrain",
                *_PRETRAIN_REMOTELY,
                environment=_FEW_RETRIES,
                rules=[_away("GET .*/run/checkpoint")],
            ),
        ]
        return dict(future.result() for future in running)


@pytest.mark.slow
def test_a_report_is_made_in_the_cloud(afterwards):
    bucket, outcome = afterwards["report"]
    assert outcome.code == 0, outcome.output
    assert sum(outcome.faults.values()) > 3
    assert b"</html>" in (bucket / "run/report/index.html").read_bytes()


@pytest.mark.slow
def test_a_busy_server_does_not_spoil_an_export(afterwards):
    bucket, outcome = afterwards["export"]
    assert outcome.code == 0, outcome.output
    assert outcome.faults["503"] > 1
    model = tf.saved_model.load(str(bucket / "exported"))
    names = {"encode", "fill_mask", "score_tokens", "sentence_order"}
    assert set(model.signatures) == names
    assert not list(bucket.glob("exported.*"))


@pytest.mark.slow
def test_a_run_whose_checkpoint_cannot_be_read_does_not_begin_anew(runs, afterwards):
    bucket, outcome = afterwards["pretrain"]
    assert outcome.code == 75
    last = _last_line(outcome)
    assert last.startswith("error: ") and "gs://bucket/run/checkpoint" in last
    names = {path.name for path in (bucket / "run").glob("model.ckpt-*")}
    assert len(names) == 6
    for name in names:
        expected = (runs.cloud.bucket / "run" / name).read_bytes()
        assert (bucket / "run" / name).read_bytes() == expected, name
