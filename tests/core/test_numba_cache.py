"""The directory of compiled kernels."""

from albert_tf.core import numba_cache


def test_each_copy_of_the_project_has_its_own_compiled_kernels(tmp_path, monkeypatch):
    digests = []
    for root, source in (("one", "a"), ("two", "a"), ("two", "b")):
        package = tmp_path / root / "albert_tf"
        package.mkdir(parents=True, exist_ok=True)
        kernel = f"@numba_cache.kernel\ndef {source}(): pass\n"
        (package / "kernels.py").write_text(kernel)
        monkeypatch.setattr(numba_cache, "__file__", str(package / "core" / "x.py"))
        digests.append(numba_cache._kernels_digest())
    assert len(set(digests)) == 3
