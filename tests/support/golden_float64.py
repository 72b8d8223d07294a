"""Takes the training steps of `tests.optim.test_optimizers` in float64.

Call as `python -m tests.support.golden_float64 FOLDER`: a process, because float32 is
replaced by float64 before any module of the project is imported. It writes for each
optimizer FOLDER/NAME.npz: `losses` [steps, 2] and, as `step5/VARIABLE`, the variables.
"""

import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np  # noqa: E402  (the environment comes first)
import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402


def main() -> None:
    """Writes the results of both optimizers."""
    tf.float32 = tf.float64
    tf_keras.backend.set_floatx("float64")
    from tests.optim import test_optimizers

    for name in ("lamb", "adamw"):
        run = test_optimizers._Run(name, dtype="float64")
        assert {v.dtype for v in run.model.trainable_variables} == {tf.float64}
        for key, value in run.features.items():
            if value.dtype == np.float32:
                run.features[key] = value.astype(np.float64)
        step = test_optimizers._plain_step(run, norm_of_slices=True)
        results, all_losses = {}, []
        for number in range(1, 31):
            all_losses.append([loss.numpy() for loss in step()])
            if number in test_optimizers.GOLDEN_STEPS:
                for variable in run.model.trainable_variables:
                    results[f"step{number}/{variable.name}"] = variable.numpy()
        results["losses"] = np.array(all_losses)
        np.savez(os.path.join(sys.argv[1], name), **results)


if __name__ == "__main__":
    main()
