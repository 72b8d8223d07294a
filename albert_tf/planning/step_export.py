"""Export of the train step as one StableHLO program.

The step is that of `Trainer`, as an accelerator takes it: XLA compiles forward and
backward pass, clipping and optimizer, and no operation has the form that is fastest on
a CPU. Variables and slots are arguments and outputs.
"""

import re

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.devices import strategies
from albert_tf.model import costs
from albert_tf.planning import exported_step
from albert_tf.training import loss_scale, pretraining
from albert_tf.training import trainer as trainer_lib

# The types of MLIR by their NumPy names.
_DTYPES = {"i32": "int32", "i64": "int64", "f32": "float32"}
# What the step takes beside the batch, before the first step. The mean loss would be
# infinite, which JSON does not have.
_SCALARS = (
    exported_step.Argument("stop", "float32", (), fill=0.0),
    exported_step.Argument(
        "mean_loss", "float32", (), fill=float(np.finfo(np.float32).max)
    ),
    exported_step.Argument("num_skipped", "int32", (), fill=0.0),
)
_LOSS_SCALE = exported_step.Argument(
    "loss_scale", "float32", (), fill=loss_scale.INITIAL
)


def export_step(config: config_lib.Config, global_batch: int, folder: str) -> None:
    """Writes the step of one device to a directory, see `exported_step`.

    The first step comes after the warmup, so that the loss of a repeated batch falls.

    Args:
      config: a recipe for pre-training, or one of its stages.
      global_batch: number of rows.
      folder: the directory.

    Raises:
      ValueError: the recipe is for a task, or the batch cannot be divided.
    """
    config.check_pretraining()
    step, program = lower(make_trainer(config, global_batch))
    exported_step.write(folder, step, program)


def make_trainer(config: config_lib.Config, global_batch: int) -> trainer_lib.Trainer:
    """Returns a trainer that computes as on an accelerator.

    Args:
      config: a recipe without stages, or one of the stages.
      global_batch: number of rows.
    """
    # What "auto" is there.
    settings = f"train.batch_size={global_batch}", "train.jit_compile=on"
    config = config_io.override(config, settings)
    strategy = strategies.create_strategy("one_device")
    return pretraining.make_trainer(config, strategy=strategy)


def lower(
    trainer: trainer_lib.Trainer, num_replicas: int = 1
) -> tuple[exported_step.ExportedStep, str]:
    """Returns the description and the program of a trainer's step.

    Args:
      trainer: its batch is that of one replica.
      num_replicas: with more than 1 the program sums over as many replicas itself.

    Raises:
      ValueError: the program calls code that only this machine's device has.
    """
    config = trainer.config
    features = schema.model_features(config.data.row)
    specs = {
        name: tf.TensorSpec([config.train.batch_size, *shape], dtype, name)
        for name, (dtype, shape) in features.items()
    }
    train_step = trainer.make_train_step()
    described_scalars = (*_SCALARS, *((_LOSS_SCALE,) if trainer.loss_scale else ()))

    # Flat arguments, which experimental_get_compiler_ir requires.
    @tf.function(jit_compile=True, autograph=False)
    def step(*arguments):
        values, scalars = arguments[: len(specs)], arguments[len(specs) :]
        batch = dict(zip(specs, values, strict=True))
        return strategies.run_on_replicas(
            trainer.strategy, train_step, (batch, *scalars)
        )

    scalar_specs = [tf.TensorSpec([], one.dtype, one.name) for one in described_scalars]
    flat_specs = (*specs.values(), *scalar_specs)
    with strategies.replicas_within_program(num_replicas):
        traced = step.get_concrete_function(*flat_specs)
        # With variables TensorFlow lowers for a device of this machine only, also a
        # CPU. A test compares with its lowering for GPUs.
        text = step.experimental_get_compiler_ir(*flat_specs)(stage="stablehlo")
    check_portable(text)
    by_handle = {id(variable.handle): variable for variable in traced.variables}
    variables = [by_handle[id(handle)] for handle in traced.captured_inputs]
    arguments = (
        *(_feature(spec) for spec in specs.values()),
        *described_scalars,
        *(_state(variable, trainer) for variable in variables),
    )
    outputs = _outputs(text, sorted(traced.structured_outputs), arguments)
    counted = costs.recipe_costs(config)
    described = exported_step.ExportedStep(
        config_io.to_dict(config),
        counted.tokens_per_step,
        counted.step_flops.forward + counted.step_flops.backward,
        arguments,
        outputs,
    )
    return described, _portable(text, outputs)


def _feature(spec: tf.TensorSpec) -> exported_step.Argument:
    return exported_step.Argument(spec.name, spec.dtype.name, tuple(spec.shape))


def _state(
    variable: tf.Variable, trainer: trainer_lib.Trainer
) -> exported_step.Argument:
    """Describes a variable, and how to draw its first value."""
    name = variable.name.removesuffix(":0")
    shape, dtype = tuple(variable.shape), variable.dtype.name
    if variable is trainer.optimizer.iterations:
        warmup_steps = float(trainer.config.optimizer.warmup_steps)
        return exported_step.Argument(name, dtype, shape, fill=warmup_steps)
    least, most = tf.reduce_min(variable).numpy(), tf.reduce_max(variable).numpy()
    if least == most:
        return exported_step.Argument(name, dtype, shape, fill=float(least))
    stddev = trainer.config.model.initializer_range
    return exported_step.Argument(name, dtype, shape, stddev=stddev)


def _outputs(
    text: str,
    scalars: list[str],
    arguments: tuple[exported_step.Argument, ...],
) -> tuple[exported_step.Output, ...]:
    """Describes the outputs: first the scalars by name, then the variables."""
    (header,) = re.findall(r"^module .*$", text, re.M)
    aliases = re.findall(
        r"parameter_number = (\d+) : i64\}, output_index = array<i64: (\d+)>", header
    )
    argument_of = {int(output): int(argument) for argument, output in aliases}
    (signature,) = re.findall(r"func\.func @main\(.*?\) -> \((.*)\) \{$", text, re.M)
    outputs = []
    for index, type_ in enumerate(re.findall(r"tensor<([^>]*)>", signature)):
        *shape, dtype = type_.split("x")
        argument = argument_of.get(index)
        name = scalars[index] if argument is None else arguments[argument].name
        outputs.append(
            exported_step.Output(name, _DTYPES[dtype], tuple(map(int, shape)), argument)
        )
    return tuple(outputs)


def check_portable(text: str) -> None:
    """Raises a ValueError if a program calls code that only one device has."""
    called = set(re.findall(r"custom_call @?([\w.$]+)", text))
    if called:
        raise ValueError(
            "the step must consist of operations that XLA compiles for every device; "
            f"it calls {', '.join(sorted(called))}"
        )


def _portable(text: str, outputs: tuple[exported_step.Output, ...]) -> str:
    """Returns the program as compilers other than TensorFlow's read it.

    An argument says which output may overwrite it. Locations keep the names of
    operations, which profiles show, but no paths of files.
    """
    output_of = {output.argument: index for index, output in enumerate(outputs)}

    def with_output(match: re.Match) -> str:
        index = output_of.get(int(match[1]))
        if index is None:
            return match[0]
        return f"{match[0]} {{tf.aliasing_output = {index} : i32}}"

    text = re.sub(
        r"func\.func @main\(.*",
        lambda line: re.sub(r"%arg(\d+): tensor<[^>]*>", with_output, line[0]),
        text,
    )
    text = re.sub(r"^module .*$", "module @train_step {", text, flags=re.M)
    file_location = r'^(#loc\d+ = loc)\("[^"]*":\d+:\d+\)$'
    text = re.sub(file_location, r"\1(unknown)", text, flags=re.M)
    # A reshape to the same shape is a copy, of which MLIR without MHLO knows nothing.
    return re.sub(
        r"mhlo\.copy (%[\w#]+) : (tensor<[^>]*>)",
        r"stablehlo.reshape \1 : (\2) -> \2",
        text,
    )
