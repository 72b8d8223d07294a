"""Train steps compiled for a TPU by libtpu, and the cache of what it said.

The compiler runs in a process of a tool environment (requirements-plan.txt), as libtpu
and its JAX do not fit beside TensorFlow. It needs no TPU.
"""

import dataclasses
import functools
import gc
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, strict_json, tool_environment
from albert_tf.devices import chip_table
from albert_tf.planning import hlo_traffic

REQUIREMENTS = "requirements-plan.txt"
_COMPILER = pathlib.Path(__file__).with_name("tpu_compile.py")
# Of one program. Most take a minute, those of 24 layers without sharing several.
_COMPILE_SECONDS = 3600.0
_MAX_MESSAGE = 500
_SIZE = r"([\d.]+)([KMGT])"
_FAR_TOO_LARGE = re.compile(rf"\(?{_SIZE}\)? exceeds available HBM \({_SIZE}\)")
_REQUIRED = re.compile(f"Program hbm requirement {_SIZE}")
_RAN_OUT = re.compile(rf"of {_SIZE} hbm\. Exceeded hbm capacity by {_SIZE}")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_COMPILER_GIB = 10  # of memory on the host: BERT large took 9


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of a compiled program in the memory of one replica.

    arguments: batch, weights and optimizer slots.
    outputs: results, also those that overwrite an argument.
    aliased: bytes of outputs that overwrite an argument.
    temporaries: activations, gradients and buffers, at the moment when they are most.
    code: the program itself.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    code: int

    @property
    def total(self) -> int:
        """What the program needs at its peak."""
        own_outputs = self.outputs - self.aliased
        return self.arguments + own_outputs + self.temporaries + self.code


@dataclasses.dataclass(frozen=True)
class CompiledStep:
    """What the compiler says of a step on one replica.

    program: SHA-256 of the StableHLO text.
    num_replicas: of the program; with several, their sum is a part of it.
    seconds: that the compiler took.
    memory: None if the program does not fit.
    needed_bytes: at the peak.
    available_bytes: of the replica's memory; 0 if the compiler did not say.
    flops: of all operations, also elementwise ones.
    hbm_bytes: of operands and results in HBM of all instructions.
    """

    program: str
    num_replicas: int
    seconds: float
    memory: Memory | None
    needed_bytes: int
    available_bytes: int = 0
    flops: float = 0.0
    hbm_bytes: int = 0

    @property
    def fits(self) -> bool:
        """Whether the compiler found room for it."""
        return self.memory is not None


class StepCompiler:
    """Compiles the steps of recipes, each once.

    Args:
      folder: of the tool environment, and of the results that are kept.
      install: whether to make the environment if there is none.

    Raises:
      ValueError: there is no environment, or it cannot be made.
    """

    def __init__(self, folder: str, install: bool = False):
        self._folder = pathlib.Path(folder)
        python = tool_environment.python_of(self._folder)
        if install:
            tool_environment.make(self._folder, REQUIREMENTS)
        elif not tool_environment.is_made(self._folder, REQUIREMENTS):
            state = (
                "is not complete, or being made" if python.exists() else "is not there"
            )
            raise ValueError(
                "plans for TPUs need their compiler (JAX and libtpu, about 1.2 GB) in "
                f"an environment of its own, and {self._folder / 'venv'} {state}; give "
                "the same command with --install_tools, which makes it"
            )
        # Absolute, but not resolved: the link says which environment it is.
        self._python = str(python.absolute())

    def compile(
        self,
        config: config_lib.Config,
        num_rows: int,
        chip: chip_table.Chip,
        num_replicas: int = 1,
    ) -> CompiledStep:
        """Returns what the compiler says of a recipe's step.

        Args:
          config: a recipe for pre-training.
          num_rows: of a replica's batch.
          chip: a TPU.
          num_replicas: 1, or those of the chip's `topology`.

        Raises:
          ValueError: the recipe cannot have that batch, or the compiler fails.
        """
        of_recipe = self._cached(
            "recipe",
            config_io.to_json(config),
            f"{num_rows} rows",
            _sources_digest(),
            *self._target(chip, num_replicas),
        )
        if not of_recipe.exists():
            program = _program(config, num_rows, num_replicas)
            of_program = self._cached(
                "program", program, *self._target(chip, num_replicas)
            )
            if not of_program.exists():
                found = self._run(program, chip, num_replicas)
                files.write_json(str(of_program), dataclasses.asdict(found))
            files.copy(str(of_program), str(of_recipe))
        values = strict_json.load_object(str(of_recipe))
        return strict_json.as_type(values, str(of_recipe), CompiledStep)

    def _target(self, chip: chip_table.Chip, num_replicas: int) -> tuple[str, ...]:
        pins = tool_environment.pins_of(REQUIREMENTS).read_text()
        target = (chip.topology, chip.chip_config, f"{num_replicas} replicas")
        return (*target, pins, _COMPILER.read_text())

    def _cached(self, kind: str, *parts: str) -> pathlib.Path:
        folder = self._folder / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return folder / f"{kind}-{digest[:32]}.json"

    def _run(
        self, program: str, chip: chip_table.Chip, num_replicas: int
    ) -> CompiledStep:
        with tempfile.TemporaryDirectory() as scratch:
            paths = {
                name: os.path.join(scratch, name)
                for name in ("program", "request", "result", "hlo")
            }
            files.write_bytes(paths["program"], program.encode())
            request = {
                "program": paths["program"],
                "result": paths["result"],
                "hlo": paths["hlo"],
                "topology": chip.topology,
                "chip_config": chip.chip_config,
                "num_replicas": num_replicas,
            }
            files.write_json(paths["request"], request)
            try:
                done = subprocess.run(
                    [self._python, "-P", str(_COMPILER), paths["request"]],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    timeout=_COMPILE_SECONDS,
                )
            except subprocess.TimeoutExpired as error:
                raise ValueError(
                    f"the compiler for {chip.kind} did not end within "
                    f"{_COMPILE_SECONDS:.0f} s"
                ) from error
            if done.returncode < 0:
                raise ValueError(
                    f"the compiler for {chip.kind} was ended by signal "
                    f"{-done.returncode}, perhaps for lack of memory: it needs up to "
                    f"{_COMPILER_GIB} GiB. Give the same command again with that free"
                )
            if done.returncode:
                reason = tool_environment.last_line(
                    done.stderr.decode(errors="replace")
                )
                raise ValueError(
                    f"the compiler for {chip.kind} failed: {reason}. If the "
                    f"environment of {REQUIREMENTS} is damaged, delete {self._folder} "
                    "and give --install_tools"
                )
            values = strict_json.load_object(paths["result"])
            if "memory" in values:
                hlo = files.read_bytes(paths["hlo"]).decode()
                values["hbm_bytes"] = hlo_traffic.hbm_bytes(hlo)
        return _as_step(values, program, chip, num_replicas)


def _as_step(
    values: dict[str, Any], program: str, chip: chip_table.Chip, num_replicas: int
) -> CompiledStep:
    digest = hashlib.sha256(program.encode()).hexdigest()
    seconds = values["seconds"]
    if "error" in values:
        if (limits := _memory_limits(values["error"])) is None:
            message = values["error"][:_MAX_MESSAGE]
            raise ValueError(f"libtpu cannot compile for {chip.kind}: {message}")
        return CompiledStep(digest, num_replicas, seconds, None, *limits)
    memory = Memory(**values["memory"])
    return CompiledStep(
        *(digest, num_replicas, seconds, memory, memory.total),
        flops=values["flops"],
        hbm_bytes=values["hbm_bytes"],
    )


def _memory_limits(error: str) -> tuple[int, int] | None:
    """Returns the bytes that a program needs and those there are, if it does not fit.

    Args:
      error: libtpu's. It has one form for programs that are far too large, and one for
        those that fit no more after all that the compiler tried.
    """
    if found := _FAR_TOO_LARGE.search(error):
        required = _REQUIRED.search(error) or found
        return _bytes(required[1], required[2]), _bytes(found[3], found[4])
    if found := _RAN_OUT.search(error):
        available = _bytes(found[1], found[2])
        return available + _bytes(found[3], found[4]), available
    return None


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def _program(config: config_lib.Config, num_rows: int, num_replicas: int) -> str:
    # Imported here: a result that was kept needs no TensorFlow.
    from albert_tf.planning import step_export

    def export() -> str:
        trainer = step_export.make_trainer(config, num_rows)
        return step_export.lower(trainer, num_replicas)[1]

    program = export()
    # The weights, of gigabytes, are in reference cycles. They are freed before the
    # compiler needs as much.
    gc.collect()
    return program


@functools.cache
def _sources_digest() -> str:
    """Returns a digest of the modules that may change the step."""
    digest = hashlib.sha256()
    package = pathlib.Path(__file__).parent.parent
    for room in ("core", "data", "devices", "model", "optim", "planning", "training"):
        for path in sorted((package / room).glob("*.py")):
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()
