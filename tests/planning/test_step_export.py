"""The exported train step is that of `Trainer`, and runs without TensorFlow's parts."""

import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.framework import convert_to_constants

from albert_tf.core import config_io, row_shapes
from albert_tf.data import schema
from albert_tf.devices import strategies
from albert_tf.planning import exported_step, step_export
from albert_tf.training import train_step
from tests.support import small_run

BATCH_SIZE, LENGTH, NUM_PREDICTIONS = 3, 24, 4
CONFIG = small_run.small_config(
    "model.num_layers=1",
    # The masks are a part of the step.
    "model.hidden_dropout_rate=0.1",
    "model.attention_dropout_rate=0.1",
    "optimizer.learning_rate=0.05",
)
# Largest absolute difference, float32.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def exported() -> tuple[exported_step.ExportedStep, str]:
    return step_export.lower(step_export.make_trainer(CONFIG, BATCH_SIZE))


def _batch() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    shape, predicted = (BATCH_SIZE, LENGTH), (BATCH_SIZE, NUM_PREDICTIONS)
    order = generator.permuted(np.tile(np.arange(9), (BATCH_SIZE, 1)), axis=1)
    values = {
        "input_ids": generator.integers(5, 4000, shape),
        "input_mask": np.arange(LENGTH) < [[LENGTH], [20], [9]],
        "segment_ids": generator.integers(0, 2, shape),
        "masked_lm_positions": np.sort(order[:, :NUM_PREDICTIONS], axis=1),
        "masked_lm_ids": generator.integers(5, 4000, predicted),
        "masked_lm_weights": np.arange(NUM_PREDICTIONS) < [[4], [2], [1]],
        "next_sentence_labels": generator.integers(0, 2, BATCH_SIZE),
    }
    features = schema.model_features(row_shapes.RowShape(LENGTH, NUM_PREDICTIONS))
    return {name: value.astype(features[name][0]) for name, value in values.items()}


def _runner(step: exported_step.ExportedStep, program: str):
    """A function of the program's arguments that XLA compiles from its text."""

    @tf.function(jit_compile=True, autograph=False)
    def run(*arguments):
        return gen_xla_ops.xla_call_module(
            args=arguments,
            version=9,
            module=program.encode(),
            Sout=[output.shape for output in step.outputs],
            Tout=[tf.as_dtype(output.dtype) for output in step.outputs],
            platforms=["CPU"],
        )

    return run


def test_steps_are_those_of_the_trainer(exported):
    """Three of them, the first at a learning rate of 0, from the same weights."""
    step, program = exported
    trainer, batch = step_export.make_trainer(CONFIG, BATCH_SIZE), _batch()
    own_step = trainer.make_train_step()

    @tf.function(autograph=False)
    def own(features):
        scalars = tf.constant(0.0), tf.constant(float("inf")), tf.constant(0)
        return strategies.run_on_replicas(
            trainer.strategy, own_step, (features, *scalars)
        )

    variables = {
        variable.name.removesuffix(":0"): variable
        for variable in (*trainer.model.variables, *trainer.optimizer.variables)
    }
    values = {name: variable.numpy() for name, variable in variables.items()} | batch
    arguments = [
        tf.constant(np.asarray(values.get(one.name, one.fill), one.dtype))
        for one in step.arguments
    ]
    run = _runner(step, program)
    losses = []
    for _ in range(3):
        outputs = run(*arguments)
        wanted = own({name: tf.constant(value) for name, value in batch.items()})
        for output, value in zip(step.outputs, outputs, strict=True):
            if output.argument is None:
                assert float(value) == pytest.approx(float(wanted[output.name]), 1e-5)
            else:
                arguments[output.argument] = value
        losses.append(float(wanted["loss"]))
        updated = 0
        for argument, value in zip(step.arguments, arguments, strict=True):
            if argument.name in variables:
                difference = value.numpy() - variables[argument.name].numpy()
                assert np.max(np.abs(difference)) < TOLERANCE, argument.name
                updated += 1
        assert updated == len(variables)
    assert losses[2] < losses[0] - 0.1
    assert int(trainer.optimizer.iterations) == 3


def test_arguments_and_outputs_are_described(exported):
    step, program = exported
    features = schema.model_features(row_shapes.RowShape(LENGTH, NUM_PREDICTIONS))
    names = [one.name for one in step.arguments]
    assert names[:10] == [*features, "stop", "mean_loss", "num_skipped"]
    assert len(set(names)) == len(names)
    scalars = [one.name for one in step.outputs if one.argument is None]
    assert {"loss", "gradient_norm", "is_bad", "mlm_loss"} <= {*scalars}
    # Each variable is an argument, and its new value an output that may overwrite it.
    assert {one.argument for one in step.outputs} - {None} == {*range(10, len(names))}
    for index, output in enumerate(step.outputs):
        if output.argument is not None:
            argument = step.arguments[output.argument]
            assert (output.name, output.dtype, output.shape) == (
                *(argument.name, argument.dtype, argument.shape),
            )
            attribute = f"{{tf.aliasing_output = {index} : i32}}"
            assert re.search(rf"%arg{output.argument}: \S+ {attribute}", program)
    by_name = dict(zip(names, step.arguments, strict=True))
    drawn = {"albert/encoder/embeddings/word_embeddings": (4000, 10)}
    for name, shape in drawn.items():
        assert (by_name[name].shape, by_name[name].stddev) == (shape, 0.02)
        assert by_name[f"v/{name}"].fill == 0.0
    assert by_name["albert/encoder/embeddings/layer_norm/gamma"].fill == 1.0
    # The first step comes after the warmup.
    assert (by_name["iteration"].dtype, by_name["iteration"].fill) == ("int64", 2.0)


def test_costs_are_those_of_the_batch(exported):
    step, _ = exported
    assert step.num_tokens == 72
    # 3 times the forward pass; L 1, H 12, F 20, E 10, V 4000. The heads read 15 of 72
    # positions; keys and values are of all.
    block = 4 * 72 * 12 * 12 + 15 * (4 * 12 * 12 + 4 * 12 * 20 + 4 * 24 * 12)
    heads = 2 * 3 * 12 * 12 + 2 * 12 * (12 * 10 + 10 * 4000) + 4 * 3 * 12
    assert step.model_flops == 3 * (block + 2 * 72 * 10 * 12 + heads)


def test_the_program_names_operations_and_no_files(exported):
    _, program = exported
    assert program.count("module @train_step {") == 1
    assert "albert/encoder/block_0/attention" in program
    assert ".py" not in program
    assert "mhlo.copy" not in program and "custom_call" not in program


def test_what_is_written_is_read(exported, tmp_path):
    step, program = exported
    exported_step.write(str(tmp_path / "step"), step, program)
    assert exported_step.read(str(tmp_path / "step")) == (step, program)


def test_a_missing_or_other_format_is_refused(exported, tmp_path):
    with pytest.raises(ValueError, match=r"there is no \S+step.json"):
        exported_step.read(str(tmp_path))
    exported_step.write(str(tmp_path), *exported)
    path = tmp_path / "step.json"
    path.write_text(
        path.read_text().replace('format_version": 1', 'format_version": 7')
    )
    with pytest.raises(ValueError, match="format_version 1; received 7"):
        exported_step.read(str(tmp_path))


def test_code_of_one_device_is_refused():
    program = "%0 = stablehlo.custom_call @cpu_argmax(%arg0) : tensor<i32>"
    with pytest.raises(ValueError, match="it calls cpu_argmax"):
        step_export.check_portable(program)


@pytest.mark.parametrize("jit_compile", ["auto", "off"])
def test_nothing_has_a_form_for_cpus(jit_compile):
    config = small_run.small_config(f"train.jit_compile={jit_compile}")
    trainer = step_export.make_trainer(config, 2)
    assert not trainer.model.compute.fuse_elementwise
    assert not trainer.optimizer.compiled


def test_the_batch_may_be_any_that_accumulation_divides():
    config = small_run.small_config("train.accumulation_steps=2")
    assert step_export.make_trainer(config, 6).config.train.batch_size == 6
    with pytest.raises(ValueError, match="must be a multiple of"):
        step_export.make_trainer(config, 3)


def test_the_program_of_a_gpu_is_the_same():
    """Of loss and gradients, as TensorFlow takes no variables for an absent device."""
    config = small_run.small_config(
        "model.num_layers=1",
        "model.hidden_dropout_rate=0.1",
        "model.attention_dropout_rate=0.1",
        "train.compute_dtype=bfloat16",
    )
    trainer = step_export.make_trainer(config, BATCH_SIZE)
    names = [*_batch()]
    seed = tf.TensorSpec([2], tf.int32)
    specs = [seed, *(tf.TensorSpec(v.shape, v.dtype) for v in _batch().values())]

    @tf.function(autograph=False)
    def gradients(seed, *values):
        batch = dict(zip(names, values, strict=True))
        weights = trainer.objective.weights(batch)
        return train_step.compute_gradients(
            trainer.objective, trainer.model, batch, seed, *weights
        )

    frozen = convert_to_constants.convert_variables_to_constants_v2(
        gradients.get_concrete_function(*specs), lower_control_flow=False
    )
    compiled = tf.function(
        lambda *arguments: frozen(*arguments), jit_compile=True, autograph=False
    )
    ir = compiled.experimental_get_compiler_ir(*specs)
    programs = {ir(stage="stablehlo", platform_name=name) for name in ("CPU", "GPU")}
    (program,) = programs
    assert "dot_general" in program and "bf16" in program


def test_the_step_of_packed_rows_has_their_features():
    packed = config_io.override(CONFIG, ["data.pack_sequences=2"])
    step, program = step_export.lower(step_export.make_trainer(packed, BATCH_SIZE))
    features = [one for one in step.arguments if one.is_feature]
    assert {one.name: (one.dtype, one.shape) for one in features} == {
        name: (dtype, (BATCH_SIZE, *shape))
        for name, (dtype, shape) in schema.model_features(packed.data.row).items()
    }
    # Which sequences see one another is compared within the program; its only layer is
    # applied where the heads read it.
    row = packed.data.row
    num_read = row.num_sequences + row.num_predictions
    assert f"tensor<{BATCH_SIZE}x1x{num_read}x48xi1>" in program


def test_attention_in_parts_is_exported_without_all_pairs_of_tokens():
    settings = ["model.num_layers=2", "train.queries_at_once=10"]
    trainer = step_export.make_trainer(config_io.override(CONFIG, settings), BATCH_SIZE)
    _, program = step_export.lower(trainer)
    # Three parts of eight queries, in the layer whose result is needed everywhere.
    assert "tensor<3x2x8x24xf32>" in program and "stablehlo.while" in program
    assert "3x2x24x24x" not in program
