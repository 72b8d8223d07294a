"""The compiler's process: what it is asked, what is kept, and how it fails."""

import hashlib
import json
import pathlib

import pytest

from albert_tf.core import config_io
from albert_tf.devices import chip_table
from albert_tf.planning import compiled_step, exported_step, step_export
from tests.support import small_run

CONFIG = small_run.small_config("model.num_layers=1")
V4 = chip_table.find("v4-8").chip
ANSWER = {
    **{"device_kind": "TPU v4", "num_cores": 2, "seconds": 7.0},
    "memory": {
        **{"arguments": 100, "outputs": 60, "aliased": 50, "temporaries": 30},
        "code": 4,
    },
    "flops": 5e9,
}
HLO = "HloModule step\n\nENTRY %main () -> f32[2] {\n  %a = f32[2]{0} sine(%b)\n}\n"


def _tools(folder: pathlib.Path, answer: dict, code: int = 0) -> pathlib.Path:
    """A tool environment whose interpreter writes `answer`, and logs its requests."""
    python = folder / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (folder / "answer.json").write_text(json.dumps(answer))
    (folder / "hlo").write_text(HLO)
    python.write_text(
        f"""#!/bin/sh
cat "$3" | tr -d '\\n' >> {folder}/log; echo >> {folder}/log
echo 'warnings' >&2; echo 'ImportError: libtpu.so is damaged' >&2
[ {code} = 0 ] || exit {code}
cp {folder}/answer.json "$(sed -n 's/.*"result": "\\(.*\\)".*/\\1/p' "$3")"
cp {folder}/hlo "$(sed -n 's/.*"hlo": "\\(.*\\)".*/\\1/p' "$3")"
"""
    )
    python.chmod(0o755)
    (folder / "venv" / f"installed-{compiled_step.REQUIREMENTS}").touch()
    return folder


def _requests(folder: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


@pytest.fixture
def programs(monkeypatch) -> list[tuple]:
    """The exports that were made, each of a program of its own."""
    made: list[tuple] = []

    def program(config, num_rows, num_replicas):
        made.append((num_rows, num_replicas))
        return f"module of {num_rows} rows and {num_replicas} replicas"

    monkeypatch.setattr(compiled_step, "_program", program)
    return made


def test_a_result_is_kept_by_program_and_topology(tmp_path, programs):
    folder = _tools(tmp_path / "tools", ANSWER)
    compiler = compiled_step.StepCompiler(str(folder))
    step = compiler.compile(CONFIG, 6, V4, 4)
    assert step.memory == compiled_step.Memory(100, 60, 50, 30, 4)
    assert (step.needed_bytes, step.flops, step.hbm_bytes) == (144, 5e9, 8)
    assert (
        step.program == hashlib.sha256(b"module of 6 rows and 4 replicas").hexdigest()
    )
    (request,) = _requests(folder)
    # Without the configuration libtpu compiles for one core of v4 and half its memory.
    assert (request["topology"], request["chip_config"]) == ("v4:2x2x1", "megacore")
    assert request["num_replicas"] == 4
    # Again: neither exported nor compiled, also by another object.
    assert compiled_step.StepCompiler(str(folder)).compile(CONFIG, 6, V4, 4) == step
    assert (len(programs), len(_requests(folder))) == (1, 1)
    # A setting that changes nothing in the program: exported, and not compiled.
    longer = config_io.override(CONFIG, ["train.keep_checkpoints=9"])
    assert compiler.compile(longer, 6, V4, 4) == step
    assert (len(programs), len(_requests(folder))) == (2, 1)
    # Other rows, replicas and chips are other programs or topologies.
    compiler.compile(CONFIG, 7, V4, 4)
    compiler.compile(CONFIG, 6, V4, 1)
    compiler.compile(CONFIG, 6, chip_table.find("v3-8").chip, 4)
    assert len(_requests(folder)) == 4


@pytest.mark.parametrize(
    ("error", "needed", "available"),
    [
        (
            "Program or fatal error: 900.5M (900.5M) exceeds available HBM (0.5G)",
            round(900.5 * 2**20),
            2**29,
        ),
        (
            "(20.00G) exceeds available HBM (15.48G). Program hbm requirement 18.5G: "
            "global 241.0K",
            round(18.5 * 2**30),
            round(15.48 * 2**30),
        ),
        (
            "E1000: CompileTimeHbmOom: Ran out of memory in memory space hbm. Used "
            "15.49G of 15.48G hbm. Exceeded hbm capacity by 4.64M. Total hbm usage >= "
            "16.00G: reserved 530.01M program 11.73G arguments 3.75G. Program hbm "
            "requirement 11.73G: global 241.0K",
            round(15.48 * 2**30) + round(4.64 * 2**20),
            round(15.48 * 2**30),
        ),
    ],
)
def test_what_does_not_fit_has_its_bytes(tmp_path, programs, error, needed, available):
    answer = {"seconds": 1.0, "error": "RESOURCE_EXHAUSTED: " + error}
    folder = _tools(tmp_path / "tools", answer)
    step = compiled_step.StepCompiler(str(folder)).compile(CONFIG, 6, V4)
    assert not step.fits
    assert (step.needed_bytes, step.available_bytes) == (needed, available)


def test_failures_are_one_line_and_not_kept(tmp_path, programs):
    refused = _tools(tmp_path / "refused", {"seconds": 1.0, "error": "NOT_FOUND: v4"})
    with pytest.raises(ValueError, match="libtpu cannot compile for v4: NOT_FOUND: v4"):
        compiled_step.StepCompiler(str(refused)).compile(CONFIG, 6, V4)
    damaged = _tools(tmp_path / "damaged", {}, code=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="failed: ImportError: libtpu.so is dam"):
            compiled_step.StepCompiler(str(damaged)).compile(CONFIG, 6, V4)
    assert len(_requests(damaged)) == 2


def test_a_compiler_without_an_end_is_stopped(tmp_path, programs, monkeypatch):
    folder = _tools(tmp_path / "tools", ANSWER)
    python = folder / "venv" / "bin" / "python"
    python.write_text("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(compiled_step, "_COMPILE_SECONDS", 0.2)
    with pytest.raises(ValueError, match="did not end within 0 s"):
        compiled_step.StepCompiler(str(folder)).compile(CONFIG, 6, V4)


def test_a_compiler_that_is_killed_has_a_remedy(tmp_path, programs):
    folder = _tools(tmp_path / "tools", ANSWER)
    python = folder / "venv" / "bin" / "python"
    python.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(ValueError, match="ended by signal 9, perhaps for lack of mem"):
        compiled_step.StepCompiler(str(folder)).compile(CONFIG, 6, V4)


def test_a_missing_environment_names_the_flag(tmp_path):
    with pytest.raises(ValueError, match="with --install_tools, which makes it"):
        compiled_step.StepCompiler(str(tmp_path / "absent"))


@pytest.mark.parametrize("state", ["cut off", "failed"])
def test_an_environment_that_is_not_complete_is_not_used(tmp_path, state):
    venv = _tools(tmp_path, ANSWER) / "venv"
    if state == "cut off":  # .ci/make_venv leaves its process id
        (tmp_path / "venv.unfinished").write_text("7")
    else:
        (venv / f"installed-{compiled_step.REQUIREMENTS}").unlink()
    with pytest.raises(ValueError, match=f"{venv} is not complete, .*--install_tools"):
        compiled_step.StepCompiler(str(tmp_path))


def test_the_planned_program_is_the_exported_one(tmp_path):
    """Whose steps are those of the trainer: tests/planning/test_step_export.py."""
    folder = _tools(tmp_path / "tools", ANSWER)
    step = compiled_step.StepCompiler(str(folder)).compile(CONFIG, 3, V4)
    step_export.export_step(CONFIG, 3, str(tmp_path / "step"))
    program = (tmp_path / "step" / exported_step.PROGRAM_FILE).read_bytes()
    assert step.program == hashlib.sha256(program).hexdigest()


def test_several_replicas_add_sums_and_change_nothing_else():
    trainer = step_export.make_trainer(CONFIG, 3)
    _, alone = step_export.lower(trainer)
    _, several = step_export.lower(trainer, 8)
    assert "all_reduce" not in alone
    groups = "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]>"
    # Of each gradient at least, and the losses.
    num_variables = len(trainer.model.trainable_variables)
    assert several.count("stablehlo.all_reduce") == several.count(groups)
    assert several.count(groups) > num_variables
    for operation in ("dot_general", "exponential", "gather", "scatter", "rsqrt"):
        count = alone.count(f"stablehlo.{operation}")
        assert several.count(f"stablehlo.{operation}") == count
