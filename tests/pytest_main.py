"""Lets Bazel run a pytest file: the main module of each test in BUILD.

Without it Bazel would only import the file, run no test, and call that a success.
"""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
