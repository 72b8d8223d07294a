"""The runner: what it trains, in which order, and what it does not train again."""

import os
import pathlib
import shutil

import pytest

from albert_tf.core import binaries, files, strict_json
from albert_tf.data import schema
from albert_tf.reproduction import budgets, runner, tables

PROCESS = "albert_tf.reproduction.experiment_process"
BUDGET = budgets.BUDGETS["hour"]


class FakeProcess:
    """A process that ends with a code, after it was asked `duration` times."""

    def __init__(self, code, duration=0):
        self.returncode = None
        self.was_terminated = False
        self._code, self._duration = code, duration

    def poll(self):
        self._duration -= 1
        if self._duration < 0:
            self.returncode = self._code
        return self.returncode

    def terminate(self):
        self.was_terminated = True
        self._code, self._duration = 75, 0


class FakeBinaries:
    """Writes what the binaries would write; ends with given codes."""

    def __init__(self):
        self.calls = []
        self.codes = {}
        self.failing = ""
        self.timed = []
        self.seconds = 0.5
        self.processes = []
        self.most_at_once = 0
        self.durations = {}

    def __call__(self, module, *arguments, stdout=None, stderr=None):
        for stream, text in ((stdout, b"some output\n"), (stderr, b"some errors\n")):
            if stream is not None:
                stream.write(text)
        code = self._act(module, *arguments)
        duration = self.durations.get(len(self.processes) + 1, 0)
        self.processes.append(FakeProcess(code, duration))
        running = [one for one in self.processes if one.returncode is None]
        self.most_at_once = max(self.most_at_once, len(running))
        return self.processes[-1]

    def _act(self, module, *arguments):
        if code := self.codes.get(len(self.calls) + 1, 0):
            return code
        if self.failing and arguments[0].endswith(self.failing):
            return 1
        self.calls.append((module, *arguments))
        flags = dict(one[2:].split("=", 1) for one in arguments if one[:2] == "--")
        if module == PROCESS:
            request = strict_json.load(arguments[0])
            run_dir = request["run_dir"]
            if "configs" in request:
                self.timed.append(list(request["configs"]))
                self.timed_cores = request["cores"]
                files.write_json(
                    f"{run_dir}.json", dict.fromkeys(request["configs"], self.seconds)
                )
                return 0
            pathlib.Path(run_dir).mkdir(exist_ok=True)
            (pathlib.Path(run_dir) / "model.ckpt-8.index").write_text("")
            (pathlib.Path(run_dir) / "checkpoint").write_text("model.ckpt-8")
            # What kill -9 in a save leaves.
            (pathlib.Path(run_dir) / "model.ckpt-9_temp").mkdir(exist_ok=True)
            seed = request["config"]["train"]["seed"]
            files.write_json(f"{run_dir}.json", {"mlm_accuracy": seed / 10})
        elif module == "data_prep.create_pretraining_data":
            folder = pathlib.Path(flags["output_dir"])
            folder.mkdir(parents=True)
            (folder / schema.MANIFEST_FILE).write_text("{}")
        else:
            pathlib.Path(flags["output"]).write_text("some text")
        return 0

    @property
    def trained(self):
        """Seed and experiment of each training."""
        paths = [pathlib.Path(call[1]) for call in self.calls if call[0] == PROCESS]
        return [
            (path.parent.name, path.name.removesuffix("-request.json"))
            for path in paths
            if path.parent.name != "runs"
        ]


@pytest.fixture
def fake(monkeypatch):
    found = FakeBinaries()
    monkeypatch.setattr(binaries, "start", found)
    return found


def make(folder, *names, budget=BUDGET, **options):
    maker = tables.Maker(budget)
    return runner.Runner(
        [maker.make(name) for name in names],
        budget,
        runner.Options(str(folder), str(folder / "measures.json"), **options),
    )


def test_starts_come_first_and_all_experiments_have_a_seed_before_any_has_two(
    fake, tmp_path
):
    run = make(tmp_path, "dropout")
    assert run.num_pending() == 6
    run.run()
    of_seed = ["dropout-start", "dropout-with", "dropout-without"]
    assert fake.trained == [
        (f"seed-{seed}", name) for seed in (1, 2, 3) for name in of_seed
    ]
    assert run.num_pending() == 0
    (table,) = run.results()
    assert table["rows"][0]["values"]["mlm_accuracy"]["num_seeds"] == 3
    assert table["rows"][0]["values"]["mlm_accuracy"]["max"] == 0.3


def test_text_vocabulary_and_records_are_made_once(fake, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("words")
    make(tmp_path / "out", "pair_loss", inputs=(str(text),)).run()
    made = [call for call in fake.calls if call[0] != PROCESS]
    assert [call[0] for call in made] == [
        "data_prep.train_vocab",
        *["data_prep.create_pretraining_data"] * 3,
    ]
    assert f"--input={text}" in made[0] and "--vocab_size=8000" in made[0]
    folders = [pathlib.Path(call[4].partition("=")[2]).name for call in made[1:]]
    assert folders == ["main-none-64", "main-sop-64", "main-nsp-64"]
    assert made[1][-3:] == (
        "--set=data.pair_loss=none",
        "--set=data.max_seq_length=64",
        "--set=data.pack_sequences=2",
    )


def test_without_input_the_demonstrations_text_is_made(fake, tmp_path):
    make(tmp_path, "width").run()
    assert [call[0] for call in fake.calls[:3]] == [
        "data_prep.demo_corpus",
        "data_prep.train_vocab",
        "data_prep.create_pretraining_data",
    ]


def test_the_request_has_all_that_the_process_needs(fake, tmp_path):
    blimp = str(tmp_path / "blimp")
    make(tmp_path / "out", "pair_loss", blimp_dir=blimp, glue_dir="glue").run()
    runs = tmp_path / "out" / "runs" / "seed-2"
    request = strict_json.load(str(runs / "pair-nsp-request.json"))
    assert request["config"]["train"]["seed"] == 2
    assert request["config"]["train"]["records"] == {"main-nsp-64": 1.0}
    assert request["start"] is None
    assert list(request["evaluated_on"]) == ["sop", "nsp"]
    assert "train.records={'main-sop-64': 1.0}" in request["evaluated_on"]["sop"]
    # All held-out pairs.
    assert request["evaluated_on"]["sop"][-1] == "train.eval_batches=0"
    assert request["tasks"]["sst2"]["data_dir"] == "glue/SST-2"
    # No column of this table shows it.
    assert request["blimp_dir"] == ""
    make(tmp_path / "start", "dropout", blimp_dir=blimp, glue_dir="glue").run()
    runs = tmp_path / "start" / "runs" / "seed-3"
    request = strict_json.load(str(runs / "dropout-with-request.json"))
    assert request["start"] == str(runs / "dropout-start")
    start = strict_json.load(str(runs / "dropout-start-request.json"))
    assert start["start"] is None and start["evaluated_on"] == {}
    # Only what a table reads is measured.
    assert start["blimp_dir"] == "" and start["tasks"] == {}
    make(tmp_path / "more", "width", blimp_dir=blimp, glue_dir="glue").run()
    (path, *_) = (tmp_path / "more" / "runs" / "seed-1").glob("*-request.json")
    request = strict_json.load(str(path))
    assert request["blimp_dir"] == blimp and request["blimp_pairs"] == 50


def test_nothing_is_trained_twice(fake, tmp_path):
    make(tmp_path, "width").run()
    count = len(fake.calls)
    again = make(tmp_path, "width")
    again.run()
    assert len(fake.calls) == count
    # The other table shares one of its two experiments.
    make(tmp_path, "wide_depth").run()
    assert [name for _, name in fake.trained[12:]] == ["e16-h128-l6-all"] * 3


@pytest.mark.parametrize(("code", "exit_code"), [(75, 75), (130, 130), (-15, 75)])
def test_an_interruption_ends_it_and_the_same_command_resumes(
    fake, tmp_path, code, exit_code
):
    fake.codes = {6: code}
    with pytest.raises(SystemExit) as stopped:
        make(tmp_path, "width").run()
    assert stopped.value.code == exit_code
    # Three made the data, two were trained.
    assert len(fake.calls) == 5
    fake.codes = {}
    run = make(tmp_path, "width")
    assert run.num_pending() == 10
    run.run()
    assert len(set(fake.trained)) == len(fake.trained) == 12


def test_a_failure_without_which_nothing_can_be_trained_is_an_error(fake, tmp_path):
    fake.codes = {2: 1}
    with pytest.raises(ValueError, match="train_vocab ended with code 1"):
        make(tmp_path, "width").run()


def test_what_fails_is_left_out_with_what_starts_from_it(fake, tmp_path, capsys):
    fake.failing = "seed-1/dropout-start-request.json"
    failed = make(tmp_path, "dropout", "width").run()
    starts = ["dropout-start", "dropout-with", "dropout-without"]
    assert failed == [f"{name} (seed 1)" for name in starts]
    errors = capsys.readouterr().err
    assert f"error: dropout-start, seed 1: {PROCESS} ended with code 1" in errors
    for name in starts[1:]:
        assert f"{name}, seed 1: left out, dropout-start failed" in errors
    assert {seed for seed, _ in fake.trained} == {"seed-1", "seed-2", "seed-3"}
    assert len(fake.trained) == 7 * 3 - 3
    # The same command tries them again, and nothing else.
    fake.failing = ""
    assert make(tmp_path, "dropout", "width").run() == []
    assert fake.trained[18:] == [("seed-1", name) for name in starts]


def test_checkpoints_are_removed_after_the_last_experiment_of_a_seed(fake, tmp_path):
    make(tmp_path, "width").run()
    assert not list(tmp_path.glob("runs/*/*/model.ckpt-*"))
    assert (tmp_path / "runs" / "seed-1" / "e16-h32-l3-all").is_dir()


def test_the_runs_of_other_tables_keep_their_checkpoints(fake, tmp_path):
    fake.codes = {5: 75}
    with pytest.raises(SystemExit):
        make(tmp_path, "dropout").run()
    fake.codes = {}
    make(tmp_path, "width").run()
    start = tmp_path / "runs" / "seed-1" / "dropout-start"
    assert list(start.glob("model.ckpt-*"))


def test_a_start_that_is_still_needed_keeps_its_checkpoints(fake, tmp_path):
    fake.failing = "dropout-without-request.json"
    assert len(make(tmp_path, "dropout").run()) == 3
    runs = tmp_path / "runs" / "seed-1"
    assert (runs / "dropout-start" / "checkpoint").exists()
    assert not (runs / "dropout-with" / "checkpoint").exists()
    (runs / "dropout-start" / "metrics.jsonl").write_text("of before")
    fake.failing, count = "", len(fake.trained)
    make(tmp_path, "dropout").run()
    names = ["dropout-start", "dropout-without"]
    assert [one for seed, one in fake.trained[count:] if seed == "seed-1"] == names
    # It resumed at its last step.
    assert (runs / "dropout-start" / "metrics.jsonl").exists()
    assert not (runs / "dropout-start" / "checkpoint").exists()


def test_a_fine_tuning_is_removed_with_its_run(fake, tmp_path):
    fake.codes = {12: 75}  # the last training
    with pytest.raises(SystemExit):
        make(tmp_path, "dropout").run()
    runs = tmp_path / "runs" / "seed-3"
    tuned = runs / "dropout-with-sst2"
    tuned.mkdir()
    (tuned / "checkpoint").write_text("model.ckpt-700")
    (tuned / "model.ckpt-700.index").write_text("")
    (tuned / "results.json").write_text("{}")
    fake.codes = {}
    make(tmp_path, "dropout").run()
    assert [path.name for path in tuned.iterdir()] == ["results.json"]
    # The weights are trained again, and so must the figures be.
    forget(tmp_path, "dropout-with", "3")
    make(tmp_path, "dropout").run()
    assert not tuned.exists()


def test_a_removal_that_was_killed_is_ended_by_the_next_call(
    fake, tmp_path, monkeypatch
):
    make(tmp_path, "dropout").run()
    run = tmp_path / "runs" / "seed-1" / "dropout-with"
    tuned = run.with_name("dropout-with-sst2")
    tuned.mkdir()
    forget(tmp_path, "dropout-with", "1")
    removed = []

    def remove(folder):
        if folder == str(run):
            raise KeyboardInterrupt
        removed.append(folder)
        shutil.move(folder, tmp_path / f"removed-{len(removed)}")

    with monkeypatch.context() as patch:
        patch.setattr(runner.shutil, "rmtree", remove)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, "dropout").run()
    assert str(tuned) in removed and run.exists()
    # Somebody removed the run alone.
    tuned.mkdir()
    shutil.rmtree(run)
    make(tmp_path, "dropout").run()
    assert run.exists() and not tuned.exists()


def forget(folder, name, seed):
    """Removes what was measured of an experiment with a seed."""
    path = str(folder / "measures.json")
    measures = strict_json.load(path)
    del measures[name]["seeds"][seed]
    files.write_json(path, measures)


def test_a_start_whose_checkpoints_are_gone_is_trained_again(fake, tmp_path):
    make(tmp_path, "dropout").run()
    folder = tmp_path / "runs" / "seed-1" / "dropout-start"
    (folder / "metrics.jsonl").write_text("of before")
    count = len(fake.trained)
    forget(tmp_path, "dropout-with", "1")
    make(tmp_path, "dropout").run()
    assert [name for _, name in fake.trained[count:]] == [
        "dropout-start",
        "dropout-with",
    ]
    assert not (folder / "metrics.jsonl").exists()


def test_a_removal_that_was_killed_leaves_no_start_that_cannot_be_read(
    fake, tmp_path, monkeypatch
):
    start = "dropout-start"

    def remove(path):
        if path.endswith(".index") and start in path:
            raise KeyboardInterrupt
        os.unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(runner.os, "remove", remove)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, "dropout").run()
    assert list((tmp_path / "runs" / "seed-1" / start).glob("model.ckpt-8.index"))
    count = len(fake.trained)
    forget(tmp_path, "dropout-without", "1")
    shutil.rmtree(tmp_path / "runs" / "seed-1" / "dropout-without")
    make(tmp_path, "dropout").run()
    names = [name for seed, name in fake.trained[count:] if seed == "seed-1"]
    assert names == [start, "dropout-without"]


def test_a_number_of_steps_alone_does_not_keep_a_setting(fake, tmp_path):
    make(tmp_path, "same_time").run()
    measures = strict_json.load(str(tmp_path / "measures.json"))
    for entry in measures.values():
        entry["digest"], entry["seeds"] = "of other settings", {}
    files.write_json(str(tmp_path / "measures.json"), measures)
    fake.seconds = 1.0
    for folder in (tmp_path / "runs").glob("seed-*"):
        shutil.rmtree(folder)
    make(tmp_path, "same_time").run()
    assert len(fake.timed) == 2
    measures = strict_json.load(str(tmp_path / "measures.json"))
    assert [entry["num_steps"] for entry in measures.values()] == [1200, 1200]


def test_all_seeds_of_what_has_a_time_have_the_same_steps_on_other_machines_too(
    fake, tmp_path
):
    make(tmp_path, "same_time").run()
    names = ["same-time-bert_large", "same-time-albert_xxlarge"]
    # Once, one right after the other.
    assert fake.timed == [names]
    for seed in (1, 2, 3):
        for name in names:
            path = tmp_path / "runs" / f"seed-{seed}" / f"{name}-request.json"
            config = strict_json.load(str(path))["config"]
            assert config["train"]["num_steps"] == 2400  # 1,200 seconds
            assert config["optimizer"]["warmup_steps"] == 160
    # Another machine, which is slower, has measures of one seed alone.
    measures = strict_json.load(str(tmp_path / "measures.json"))
    measures[names[0]]["seeds"] = {"1": {}}
    measures[names[1]]["seeds"] = {}
    (tmp_path / "other").mkdir()
    files.write_json(str(tmp_path / "other" / "measures.json"), measures)
    fake.seconds = 1.0
    make(tmp_path / "other", "same_time").run()
    assert fake.timed == [names]
    path = tmp_path / "other" / "runs" / "seed-1" / f"{names[1]}-request.json"
    assert strict_json.load(str(path))["config"]["train"]["num_steps"] == 2400


@pytest.mark.parametrize(
    "change", [{"inputs": ("text",)}, {"blimp_dir": "blimp"}, {"glue_dir": "glue"}]
)
def test_figures_of_other_texts_probes_or_tasks_are_not_mixed(fake, tmp_path, change):
    (tmp_path / "text.txt").write_text("words")
    if "inputs" in change:
        change = {"inputs": (str(tmp_path / "text.txt"),)}
    make(tmp_path / "out", "width").run()
    with pytest.raises(ValueError, match="has figures of e16-h32-l3-all with other"):
        make(tmp_path / "out", "width", **change).run()
    # To write the tables nothing needs to be known.
    (table,) = make(tmp_path / "out", "width", **change).results()
    assert table["rows"][0]["values"]


def test_records_of_another_text_are_not_read(fake, tmp_path):
    (tmp_path / "text.txt").write_text("words")
    make(tmp_path / "out", "width").run()
    (tmp_path / "out" / "measures.json").unlink()
    changed = make(tmp_path / "out", "width", inputs=(str(tmp_path / "text.txt"),))
    with pytest.raises(ValueError, match="has records of other texts"):
        changed.run()


def test_another_text_may_come_with_a_later_table(fake, tmp_path):
    (tmp_path / "text.txt").write_text("words")
    (tmp_path / "more.txt").write_text("more words")
    more = {"other_inputs": (str(tmp_path / "text.txt"),)}
    make(tmp_path / "out", "width").run()
    # As an earlier version wrote it.
    texts = strict_json.load(str(tmp_path / "out" / "texts.json"))
    files.write_json(str(tmp_path / "out" / "texts.json"), {**texts, "other": []})
    make(tmp_path / "out", "added_data", **more).run()
    (tmp_path / "out" / "measures.json").unlink()
    changed = {"other_inputs": (str(tmp_path / "more.txt"),)}
    with pytest.raises(ValueError, match="has records of other texts"):
        make(tmp_path / "out", "added_data", **changed).run()


def test_a_pattern_without_files_is_an_error(fake, tmp_path):
    make(tmp_path / "out", "width").run()
    with pytest.raises(ValueError, match=r"no file matches .*typo\*\.txt"):
        make(tmp_path / "out", "depth", inputs=(f"{tmp_path}/typo*.txt",)).run()


def test_records_that_were_made_with_other_settings_are_not_read(fake, tmp_path):
    make(tmp_path, "width").run()
    manifest = tmp_path / "records" / "main-none-32" / schema.MANIFEST_FILE
    # Dynamic masks are not of the records.
    files.write_json(str(manifest), {"data": {"masked_lm_rate": 0.5}})
    make(tmp_path, "depth").run()
    files.write_json(str(manifest), {"data": {"heldout_rate": 0.05}, "text": {}})
    with pytest.raises(ValueError, match="made with data.heldout_rate=0.05, and 0.01"):
        make(tmp_path, "sharing").run()


def test_the_other_text_matters_to_its_table_alone(fake, tmp_path):
    (tmp_path / "text.txt").write_text("words")
    make(tmp_path, "width").run()
    more = make(tmp_path, "width", other_inputs=(str(tmp_path / "text.txt"),))
    more.run()
    assert len(fake.trained) == 12


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)


def request_of(folder, seed, name):
    return strict_json.load(
        str(folder / "runs" / f"seed-{seed}" / f"{name}-request.json")
    )


def test_trainings_at_the_same_time_have_their_own_cores_and_outputs(
    fake, four_cores, tmp_path, capsys
):
    # Three made the data; the first two trainings end after those that follow them.
    fake.durations = {4: 5, 5: 1}
    run = make(tmp_path, "width", "wide_depth", num_parallel=2)
    assert run.run() == []
    assert run.num_pending() == 0
    assert fake.most_at_once == 2
    names = [name for _, name in fake.trained]
    cores = [
        tuple(request_of(tmp_path, 1, name)["cores"])
        for name in names[: len(names) // 3]
    ]
    assert cores[:3] == [(0, 2), (1, 3), (1, 3)]
    logs = sorted(path.stem for path in (tmp_path / "runs" / "seed-1").glob("*.log"))
    assert logs == sorted(names[: len(names) // 3])
    log = (tmp_path / "runs" / "seed-1" / "e16-h32-l3-all.log").read_text()
    assert log.splitlines() == ["some output", "some errors"]
    assert capsys.readouterr().out.count("[1/15] e16-h32-l3-all, seed 1") == 1
    # One at a time has all cores, and prints its output.
    make(tmp_path / "one", "width").run()
    assert request_of(tmp_path / "one", 1, "e16-h32-l3-all")["cores"] == []
    assert not list((tmp_path / "one" / "runs").glob("*/*.log"))


def test_steps_are_timed_on_as_many_cores_as_a_training_has(fake, four_cores, tmp_path):
    make(tmp_path / "one", "same_time").run()
    assert fake.timed_cores == []
    make(tmp_path / "two", "same_time", num_parallel=2).run()
    assert fake.timed_cores == [0, 2]


def test_nothing_begins_before_what_it_starts_from_has_ended(
    fake, four_cores, tmp_path
):
    fake.durations = {4: 3}
    make(tmp_path, "dropout", num_parallel=3).run()
    # Other seeds' starts use the time.
    assert fake.trained[:3] == [
        *(("seed-1", "dropout-start"), ("seed-2", "dropout-start")),
        ("seed-3", "dropout-start"),
    ]
    for seed in ("seed-1", "seed-2", "seed-3"):
        of_seed = [name for one, name in fake.trained if one == seed]
        assert of_seed == ["dropout-start", "dropout-with", "dropout-without"]
    assert not list(tmp_path.glob("runs/*/*/model.ckpt-*"))


def test_an_interruption_of_one_ends_all(fake, four_cores, tmp_path):
    fake.codes, fake.durations = {5: 75}, {4: 100}
    with pytest.raises(SystemExit) as stopped:
        make(tmp_path, "width", num_parallel=2).run()
    assert stopped.value.code == 75
    other = fake.processes[3]
    assert other.was_terminated and other.returncode == 75


def test_a_failure_names_the_log(fake, four_cores, tmp_path, capsys):
    fake.failing = "seed-2/e16-h64-l3-all-request.json"
    failed = make(tmp_path, "width", num_parallel=2).run()
    assert failed == ["e16-h64-l3-all (seed 2)"]
    log_path = tmp_path / "runs" / "seed-2" / "e16-h64-l3-all.log"
    assert f"its output is in {log_path}" in capsys.readouterr().err
    assert "some output" in log_path.read_text()
