"""The command `python -m albert_tf COMMAND --flags`, as `albert-tf COMMAND --flags`."""

from albert_tf.core import console

if __name__ == "__main__":
    console.main("python -m albert_tf")
