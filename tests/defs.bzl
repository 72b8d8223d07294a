"""The rule for the tests of a folder."""

load("@rules_python//python:py_test.bzl", "py_test")

def pytest_tests(srcs, large = [], whole_tree = [], deps = []):
    """Runs pytest on each file, and groups all files of the folder as `tree`.

    Args:
        srcs: the files; NAME.py is run by the target NAME.
        large: those with tests marked slow.
        whole_tree: those that start our binaries, or read the repository.
        deps: what the files import; pytest and conftest are added.
    """
    main = "//tests:pytest_main.py"
    for src in srcs:
        py_test(
            name = src[:-len(".py")],
            size = "large" if src in large else "medium",
            srcs = [src, main],
            args = ["$(rootpath %s)" % src],
            data = ["//:tree" if src in whole_tree else "//:testdata"],
            main = main,
            deps = deps + ["//tests", "@pypi//pytest"],
        )
    native.filegroup(name = "tree", srcs = native.glob(["**"]))
