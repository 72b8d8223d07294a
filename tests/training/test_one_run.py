"""One process trains in a directory: another is refused, a killed one is followed."""

import os
import signal

import pytest

from albert_tf import finetune, pretrain
from albert_tf.checkpoints import run_lock
from tests.support import binaries, small_run
from tests.support import training_processes as processes

_LONG = ("train.num_steps=1000000", "train.save_every_steps=20")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("binary", [pretrain, finetune])
def test_a_second_process_is_refused_before_anything_is_read(tmp_path, capsys, binary):
    run = tmp_path / "run"
    flags = [f"--model_dir={run}", f"--data_dir={tmp_path}"]
    flags += [f"--init_checkpoint={tmp_path}"]
    config = "configs/finetune_mrpc.py" if binary is finetune else "configs/small.py"
    with run_lock.hold(str(run), True, pytest.fail):
        said = binaries.error_of(capsys, binary, *flags, f"--config={config}")
    assert said.startswith(
        f"another run is training in {run} (process {os.getpid()} on"
    )
    assert os.listdir(run) == []


@pytest.mark.slow
def test_a_second_run_with_other_settings_waits_for_the_end_of_the_first(
    data_dir, tmp_path
):
    run = tmp_path / "run"
    words = processes.command(data_dir, run, _LONG)
    other = processes.command(data_dir, run, ("model.num_layers=1",))
    with processes.running([words], tmp_path / "first") as (first,):
        processes.wait_for_step(run, 20)
        with processes.running([other], tmp_path / "other") as second:
            assert processes.exit_codes(second) == [1]
        said = (tmp_path / "other" / "0.err").read_text().splitlines()[-1]
        expected = f"error: another run is training in {run} (process {first.pid} on "
        assert said.startswith(expected)
        assert first.is_alive()
        first.kill()
        first.join()
    assert (run / run_lock.LOCK_FILE).exists()
    step = processes.newest_step(run)
    with processes.running([words], tmp_path / "next") as (following,):
        processes.wait_for_step(run, step + 20)
        os.kill(following.pid, signal.SIGTERM)
        assert processes.exit_codes([following]) == [75]
    assert not (run / run_lock.LOCK_FILE).exists()
