"""Builds the demonstration corpus from documentation topics and docstrings."""

import ast
import collections
import importlib.util
import inspect
import itertools
import multiprocessing
import os
import pathlib
import sysconfig
import warnings
from collections.abc import Iterable, Sequence

from albert_tf.core import files, progress_bar
from data_prep.docstring_corpus import prose

TOPICS = "topics"
STDLIB = "stdlib"
# Documents are in this order, and the first copy of a text is kept. The first three
# packages give two thirds of the prose. All are installed by requirements.txt: the same
# pins give the same corpus.
PACKAGES = (
    "numpy tensorflow keras keras_hub tensorflow_text absl h5py huggingface_hub jinja2 "
    "matplotlib tensorboard werkzeug"
).split()
# Tests have little prose. The others are installed packages, re-exports of modules
# elsewhere in the package, and copies of other projects.
SKIPPED_DIRS = frozenset(
    "__pycache__ _api _tf_keras _vendor api dist-packages idle_test site-packages test "
    "tests".split()
)
# An old fork of Keras inside TensorFlow: near-duplicates of the package keras.
SKIPPED_PATHS = ("tensorflow/python/keras",)

MIN_DOCUMENT_SENTENCES = 2
MIN_DOCUMENT_WORDS = 20
# Held-out documents must not repeat training documents. Of the 8-word shingles of a
# random 5% of the documents, 44% occur in the other documents, 14% without repeated
# paragraphs, and 6% without repeated sentences as well, which costs 7% of the text.
# Shorter texts ("Defaults to None.") may occur once in each document.
MIN_DUPLICATE_CHARACTERS = 20


def docstrings(source: str) -> list[str]:
    """Returns the docstrings of a Python source, in the order of their lines.

    They include those that NumPy adds to compiled functions with `add_newdoc`.

    Raises:
      SyntaxError: the source does not parse.
      ValueError: it contains a null byte.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other projects
        tree = ast.parse(source)
    found: list[tuple[int, str]] = []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented):
            if docstring := ast.get_docstring(node, clean=True):
                found.append((getattr(node, "lineno", 0), docstring))
        elif isinstance(node, ast.Call) and "add_newdoc" in ast.unparse(node.func):
            found += [
                (part.lineno, inspect.cleandoc(part.value))
                for part in ast.walk(node)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
    return [docstring for _, docstring in sorted(found, key=lambda pair: pair[0])]


def read_documents(path: pathlib.Path) -> list[list[str]]:
    """Returns the prose of each docstring of a file; none if it does not parse."""
    try:
        texts = docstrings(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # templates, Python 2, other encodings
        return []
    return [found for text in texts if (found := prose.paragraphs(text))]


def topic_documents() -> list[list[str]]:
    """Returns the prose of each of CPython's documentation topics, sorted by name."""
    from pydoc_data import topics  # large; worker processes do not need it

    return [prose.paragraphs(text) for _, text in sorted(topics.topics.items())]


def drop_repeats(texts: Iterable[str], seen: set[str]) -> list[str]:
    """Returns the texts of one document without repeats and without those in `seen`.

    Case and spaces are ignored. Texts that are not short are added to `seen`.
    """
    kept: dict[str, str] = {}
    for text in texts:
        key = " ".join(text.casefold().split())
        if key not in seen:
            kept.setdefault(key, text)
    seen.update(key for key in kept if len(key) > MIN_DUPLICATE_CHARACTERS)
    return list(kept.values())


def is_large_enough(document: Sequence[str]) -> bool:
    """Returns whether a document of sentences is long enough to be kept."""
    num_words = len(" ".join(document).split())
    return len(document) >= MIN_DOCUMENT_SENTENCES and num_words >= MIN_DOCUMENT_WORDS


def find_sources() -> dict[str, pathlib.Path]:
    """Returns the directory of each source of docstrings, without importing any.

    Raises:
      ValueError: a package is not installed.
    """
    sources = {STDLIB: pathlib.Path(sysconfig.get_path("stdlib"))}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(
                f"package {name!r} is not installed; run `pip install -r "
                "requirements.txt`, because the corpus contains its docstrings"
            )
        sources[name] = pathlib.Path(spec.submodule_search_locations[0])
    return sources


def python_files(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns the Python files below a directory, sorted, without skipped ones."""
    found = []
    for where, subdirs, names in os.walk(directory):
        subdirs[:] = [
            name
            for name in subdirs
            if name not in SKIPPED_DIRS
            and not f"{where}/{name}".endswith(SKIPPED_PATHS)
        ]
        found += [pathlib.Path(where, name) for name in names if name.endswith(".py")]
    return sorted(found)


def build(num_workers: int, join_modules: bool) -> list[tuple[str, list[str]]]:
    """Returns every document as its source's name and its sentences.

    Args:
      num_workers: processes that read files.
      join_modules: whether all docstrings of a module are one document, and not each.

    Raises:
      ValueError: a package is not installed.
    """
    sources = [
        (name, path)
        for name, directory in find_sources().items()
        for path in python_files(directory)
    ]
    documents = [(TOPICS, paragraphs) for paragraphs in topic_documents()]
    with multiprocessing.Pool(num_workers) as pool:
        read = pool.imap(read_documents, [path for _, path in sources], chunksize=8)
        progress = progress_bar.make(
            read, total=len(sources), desc="docstrings", unit="file"
        )
        for (name, _), found in zip(sources, progress, strict=True):
            if join_modules:
                found = [list(itertools.chain.from_iterable(found))]
            documents += [(name, paragraphs) for paragraphs in found]
    seen_paragraphs: set[str] = set()
    seen_sentences: set[str] = set()
    kept = []
    for name, paragraphs in documents:
        unique = drop_repeats(paragraphs, seen_paragraphs)
        split = itertools.chain.from_iterable(map(prose.sentences, unique))
        document = drop_repeats(split, seen_sentences)
        if is_large_enough(document):
            kept.append((name, document))
    return kept


def write(path: str, num_workers: int, join_modules: bool) -> str:
    """Builds the corpus and writes it, one sentence per line.

    Args:
      path: of the text file, local or remote.
      num_workers: as in `build`.
      join_modules: as in `build`.

    Returns:
      One line with the counts of the corpus.

    Raises:
      ValueError: a package is not installed.
    """
    documents = build(num_workers, join_modules)
    text = "\n".join("\n".join(document) + "\n" for _, document in documents)
    data = text.encode()
    files.write_bytes(path, data)
    return _summary(documents, len(data))


def _summary(documents: Sequence[tuple[str, list[str]]], size: int) -> str:
    words: collections.Counter[str] = collections.Counter()
    for name, document in documents:
        words[name] += len(" ".join(document).split())
    num_sentences = sum(len(document) for _, document in documents)
    by_source = ", ".join(f"{name} {count:,}" for name, count in words.items())
    return (
        f"{len(documents):,} documents, {num_sentences:,} sentences, "
        f"{words.total():,} words, {size / 1e6:.2f} MB; words by source: {by_source}"
    )
