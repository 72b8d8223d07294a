"""Writes the demonstration corpus: English prose that every machine already has.

The sources are CPython's documentation topics and the docstrings of the standard
library and of the packages that requirements.txt installs. They are parsed, never
imported. One topic or docstring is one document: a sentence a line, a blank line
between documents. The same Python and the same packages give the same bytes.

    python -m data_prep.demo_corpus --output=corpus.txt
"""

import ast
import collections
import html
import importlib.util
import inspect
import itertools
import multiprocessing
import os
import pathlib
import re
import sysconfig
import typing
import warnings

import sentencex
import tqdm
from absl import flags

from albert_tf import binary

TOPICS = "topics"
STDLIB = "stdlib"
# Documents come in this order, and a text is kept where it is met first. The first
# three packages give two thirds of the prose. The others, because more is better, are
# those that requirements.txt brings in: the same pins give the same corpus.
PACKAGES = (
    "numpy tensorflow keras keras_hub tensorflow_text absl h5py huggingface_hub jinja2 "
    "matplotlib tensorboard werkzeug"
).split()
# Tests hold little prose. The others are what pip installed, re-exports of what stands
# elsewhere in the package, and copies of other projects.
SKIPPED_FOLDERS = frozenset(
    "__pycache__ _api _tf_keras _vendor api dist-packages idle_test site-packages test "
    "tests".split()
)
# An old fork of Keras inside TensorFlow: near-duplicates of the package keras.
SKIPPED_PATHS = ("tensorflow/python/keras",)

MIN_DOCUMENT_SENTENCES = 2
MIN_DOCUMENT_WORDS = 20
# Held-out documents must not repeat what was trained on. Of the 8-word shingles of a
# random 5% of the documents, the rest holds 44% as the text stands, 14% without
# repeated paragraphs, 6% without repeated sentences as well, which costs 7% of the
# text. Shorter texts ("Defaults to None.") may come once in each document.
MIN_DUPLICATE_CHARACTERS = 20
MAX_SENTENCE_WORDS = 120

# Everyday words: English has one every few words, code and lists of names have none.
FUNCTION_WORDS = frozenset(
    "a about after all also an and any are as at be because been before between both "
    "but by can could do does each either every for from given had has have how if in "
    "into is it its may might more must no not of on one only or other otherwise over "
    "own same should since so some such than that the their them then there these "
    "they this those through to under until up use used using was we were what when "
    "where whether which while who will with within without would you your".split()
)

DIRECTIVE = re.compile(r"\.\. +([\w-]+(?::[\w-]+)?):: *(.*)")
VERSION_DIRECTIVES = frozenset("deprecated versionadded versionchanged".split())
TEXT_DIRECTIVES = frozenset(
    "attention caution danger hint important note seealso tip warning".split()
)
FIELD = re.compile(r"[:@](\w+)( [^:`]*)?:(?: +(.*)|$)")
TEXT_FIELDS = frozenset(
    "arg argument cvar except exception ivar keyword kwarg note param parameter "
    "raise raises return returns var yields".split()
)
SECTION = re.compile(r"[A-Z]\w*(?: \w+){0,2}:$")
BULLET = re.compile(r"(?:[-*+•o]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]+)[.)])\s+(?=\S)")
# What a list of parameters puts before a description: `name:`, `*args, **kwargs:`,
# `name (int, optional):`, `name --`.
ITEM = re.compile(
    r"[`*'\"]*(?:[a-z_][\w.]*|\w+(?:Error|Exception)|[A-Z_]{1,2}|[A-Z]\w*(?=\s+--))"
    r"(?:\([^)]*\)|=\S+)?[`*'\"]*(?:, ?[`*]*[\w.]+[`*]*)*\s*(?:\([^)]*\)|\[[^\]]*\])?"
    r"\s*(?::|--?|–)\s+(?=\S)"
)
NUMPYDOC_TERM = re.compile(r"[`*\w., {}]+ : \S")
CODE = re.compile(
    r"(?:import [\w.]+(?: as \w+)?$|from [\w.]+ import |def \w+\(|class \w+.*:$|@\w+"
    r"|[\w.\[\], '\"]+ [-+*/|&]?= \S|[\w.]+\(.*\)[;:]?$|[\w.]+\([^)]*$|#|\$ |% |//"
    r"|(?:if|for|while|with|elif|except)\b.*[(=<>_\[].*:$|(?:try|else|finally):"
    r"|(?:assert|return|print|del|yield|await|async) .*[(=\[]|[\[{(]['\"\d\[{(]"
    r"|usage: |<\w+[^>]*>$|\{|[\w.]+ ?-> )"
)
TABLE_ROW = re.compile(r"[|+].*[|+]$|.*\S\s*\|\s.*\|\s|.*[^\s.:;!?)] {3,}\S|.*\t\S")

INLINE_MARKUP = (
    (re.compile(r"</?(?:a|b|i|p|br|em|h\d|li|ul|ol|td|th|tr|pre|sub|sup|code|span|div"
                r"|table|strong|devsite[\w-]*|section)(?:\s[^>]*)?/?>"), ""),
    (re.compile(r"(?<!\w)!?\[([^\]\[]+)\](?:\([^)]*\)| ?\(https?:[^)]*\))"), r"\1"),
    (re.compile(r"\(([^()]+)\)\[https?:[^\]]*\]"), r"\1"),
    (re.compile(r"\[([^\]\[]+)\]\[[\w. -]*\]"), r"\1"),
    (re.compile(r"(?::[a-z][\w+.-]*)?:[a-z]\w*:`[~!]?\.?([^`<]+?)(?:\s*<[^`>]*>)?`"),
     r"\1"),
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{1,2}"), r"\1"),
    (re.compile(r"\s*\[[\w#*]+\]_"), ""),
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r"`(?:~\.?)?([^`]+)`_{0,2}"), r"\1"),
    (re.compile(r"`+"), ""),
    (re.compile(r"(?<![\w*])\*\*(?=\S)([^*]+?)(?<=\S)\*\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"\\([*_|`])"), r"\1"),
    (re.compile(r"\s*[(<\[]\s*(?:https?|ftp)://[^\s)>\]]*\s*[)>\]]"), ""),
    (re.compile(r"<?\b(?:https?|ftp)://\S*[\w/#=]>?"), "this page"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"(?<=[a-z]{2})- (?=[a-z])(?!(?:and|or|to)\b)"), "-"),  # Wrapped.
    (re.compile(r" (?=[.,;:](?:\s|$))"), ""),
)  # fmt: skip
NOT_TEXT = re.compile(r"\\[a-zA-Z]+|\S+@\w+\.\w+|\$\$|::=|%\(\w+\)s|\$\{|>>>|[{}]{2}")
WORD = re.compile(r"[\"'“‘(\[]*[^\W\d_]+(?:['’/-][^\W\d_]+)*[.,;:!?)\]\"'”’]*$")


def blank_markup(text: str) -> list[str]:
    """Returns the lines of a docstring, with those that are not text made empty.

    Code, doctests, literal blocks, tables, rules, headings and reST directives go;
    the text inside notes and the descriptions of reST fields stay.
    """
    kept: list[str] = []
    fence = ""
    until_blank = False
    # Lines indented deeper than this belong to a block that is being dropped.
    drop_deeper_than = -1
    for line in text.expandtabs().splitlines():
        line = line.rstrip()
        stripped = line.lstrip()
        indent = len(line) - len(line.lstrip())
        kept.append("")
        if fence:
            fence = "" if stripped.startswith(fence) else fence
            continue
        until_blank = until_blank and bool(stripped)
        if not stripped or until_blank or indent > drop_deeper_than >= 0:
            continue
        drop_deeper_than = -1
        if opening := re.match(r"```|~~~|\$\$", stripped):
            fence = "" if opening[0] in stripped[3:] else opening[0]
        elif stripped.startswith((">>>", "In [")):
            until_blank = True
        elif stripped.startswith(".. "):
            directive = DIRECTIVE.match(stripped)
            name = directive[1].lower() if directive else ""
            if directive and name in TEXT_DIRECTIVES and directive[2]:
                kept.append(" " * (indent + 3) + directive[2])
            elif name not in TEXT_DIRECTIVES | VERSION_DIRECTIVES:
                drop_deeper_than = indent
        elif field := FIELD.match(stripped):
            if field[1] in TEXT_FIELDS:
                kept[-1] = f"{' ' * indent}- {field[3]}" if field[3] else ""
            else:
                drop_deeper_than = indent
        elif not any(character.isalnum() for character in stripped):
            # A rule: what stands right above it is a heading.
            if len(kept) > 1 and len(set(stripped)) == 1:
                kept[-2] = ""
        elif "::=" in stripped:
            drop_deeper_than = indent
        elif CODE.match(stripped) and re.search(r"^$|:$", "".join(kept[-2:])):
            until_blank = True
        elif TABLE_ROW.match(stripped):
            continue
        elif stripped.endswith("::"):
            kept[-1] = line[:-1] if stripped != "::" else ""
            drop_deeper_than = indent
        else:
            kept[-1] = line
    return kept


def join_lines(lines: typing.Sequence[str]) -> list[str]:
    """Joins wrapped lines into paragraphs, one for each item of a list."""
    paragraphs: list[str] = []
    current: list[str] = []
    base = previous_indent = 0
    is_item = False
    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        starts_item = bool(BULLET.match(stripped) or ITEM.match(stripped))
        if current:
            last = current[-1]
            deeper = indent > previous_indent
            # A short line above a deeper one is a term above its definition.
            if (
                not stripped
                or indent < base
                or BULLET.match(stripped)
                or SECTION.match(stripped)
                or (indent == base and is_item and starts_item)
                or (last.endswith(":") and (deeper or starts_item))
                or (deeper and not is_item and len(last) < 50)
            ):
                paragraphs.append(" ".join(current))
                current = []
        if not stripped:
            continue
        if NUMPYDOC_TERM.match(stripped) and following.startswith(" " * (indent + 1)):
            continue
        if not current:
            base, is_item = indent, starts_item
        current.append(stripped)
        previous_indent = indent
    if current:
        paragraphs.append(" ".join(current))
    return paragraphs


def clean(paragraph: str) -> str:
    """Takes the bullet, the parameter's name and inline markup off a paragraph."""
    text = BULLET.sub("", paragraph, count=1) if BULLET.match(paragraph) else paragraph
    if item := ITEM.match(text):
        text = text[item.end() :]
    text = html.unescape(text)
    for pattern, replacement in INLINE_MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()


def is_prose(text: str, min_words: int) -> bool:
    """Whether most of a text is English words, and some of them everyday ones."""
    tokens = text.split()
    words = [token for token in tokens if WORD.match(token)]
    if len(words) < max(min_words, 0.6 * len(tokens)) or NOT_TEXT.search(text):
        return False
    function_words = sum(
        word.strip("\"'“‘([.,;:!?)]”’").lower() in FUNCTION_WORDS for word in words
    )
    return 10 * function_words >= len(tokens)


def prose(text: str) -> list[str]:
    """Returns the paragraphs of English in a docstring or documentation topic."""
    paragraphs = (clean(paragraph) for paragraph in join_lines(blank_markup(text)))
    # Under four words it is a heading or 'For example:', left behind by its code.
    return [paragraph for paragraph in paragraphs if is_prose(paragraph, min_words=4)]


def sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, less those that are formulas or lists."""
    parts: list[str] = []
    for part in sentencex.segment("en", paragraph):
        if parts and not parts[-1][-1:].isspace():
            parts[-1] += part  # The split was inside a word, such as tf.Tensor.
        else:
            parts.append(part)
    return [
        part
        for part in map(str.strip, parts)
        if len(part.split()) <= MAX_SENTENCE_WORDS and is_prose(part, min_words=2)
    ]


def docstrings(source: str) -> list[str]:
    """Returns the docstrings of a Python source, in the order of their lines.

    Those that NumPy hangs on compiled functions, with calls of `add_newdoc`, count.

    Raises:
      SyntaxError: if the source does not parse.
      ValueError: if it holds a null byte.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Invalid escapes are other people's.
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
    """Returns the prose of each docstring in a file; nothing if it does not parse."""
    try:
        texts = docstrings(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # Templates, Python 2, other encodings.
        return []
    return [paragraphs for text in texts if (paragraphs := prose(text))]


def topic_documents() -> list[list[str]]:
    """Returns the prose of each of CPython's documentation topics, by name."""
    from pydoc_data import topics  # Large; only this process needs it.

    return [prose(text) for _, text in sorted(topics.topics.items())]


def drop_repeats(texts: typing.Iterable[str], met: set[str]) -> list[str]:
    """Returns the texts of one document that neither it nor `met` holds already.

    Case and spaces do not count. `met` is given the texts that are not short.
    """
    kept: dict[str, str] = {}
    for text in texts:
        key = " ".join(text.casefold().split())
        if key not in met:
            kept.setdefault(key, text)
    met.update(key for key in kept if len(key) > MIN_DUPLICATE_CHARACTERS)
    return list(kept.values())


def large_enough(document: typing.Sequence[str]) -> bool:
    """Whether a document of sentences is long enough to learn from."""
    num_words = len(" ".join(document).split())
    return len(document) >= MIN_DOCUMENT_SENTENCES and num_words >= MIN_DOCUMENT_WORDS


def find_sources() -> dict[str, pathlib.Path]:
    """Returns the folder of each source of docstrings, without importing any.

    Raises:
      ValueError: if a package is not installed.
    """
    sources = {STDLIB: pathlib.Path(sysconfig.get_path("stdlib"))}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(
                f"package {name!r} is not installed; run `pip install -r "
                "requirements.txt`, because the corpus is made of its docstrings"
            )
        sources[name] = pathlib.Path(spec.submodule_search_locations[0])
    return sources


def python_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the Python files below a folder, sorted, less the skipped folders."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED_FOLDERS
            and not f"{where}/{name}".endswith(SKIPPED_PATHS)
        ]
        found += [pathlib.Path(where, name) for name in names if name.endswith(".py")]
    return sorted(found)


def build(num_workers: int) -> list[tuple[str, list[str]]]:
    """Returns every document as its source's name and its sentences.

    Raises:
      ValueError: if a package is not installed.
    """
    files = [
        (name, path)
        for name, folder in find_sources().items()
        for path in python_files(folder)
    ]
    documents = [(TOPICS, paragraphs) for paragraphs in topic_documents()]
    with multiprocessing.Pool(num_workers) as pool:
        read = pool.imap(read_documents, [path for _, path in files], chunksize=8)
        progress = tqdm.tqdm(
            read, total=len(files), desc="docstrings", unit="file", mininterval=1
        )
        for (name, _), found in zip(files, progress, strict=True):
            documents += [(name, paragraphs) for paragraphs in found]
    met_paragraphs: set[str] = set()
    met_sentences: set[str] = set()
    kept = []
    for name, paragraphs in documents:
        unique = drop_repeats(paragraphs, met_paragraphs)
        split = itertools.chain.from_iterable(map(sentences, unique))
        document = drop_repeats(split, met_sentences)
        if large_enough(document):
            kept.append((name, document))
    return kept


def summary(documents: typing.Sequence[tuple[str, list[str]]], size: int) -> str:
    """Returns the counts of a corpus, and the words of each source, in one line."""
    words: collections.Counter[str] = collections.Counter()
    for name, document in documents:
        words[name] += len(" ".join(document).split())
    num_sentences = sum(len(document) for _, document in documents)
    by_source = ", ".join(f"{name} {count:,}" for name, count in words.items())
    return (
        f"{len(documents):,} documents, {num_sentences:,} sentences, "
        f"{words.total():,} words, {size / 1e6:.2f} MB; words by source: {by_source}"
    )


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string("output", None, "Text file to write.", flag_values)
    flags.DEFINE_integer(
        "num_workers",
        2,
        "Processes; the output does not depend on it.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.mark_flag_as_required("output", flag_values)


def main(
    argv: typing.Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> None:
    """Builds the corpus and writes it."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        path = pathlib.Path(flag_values.output)
        if not path.parent.is_dir():
            raise ValueError(f"--output: folder {str(path.parent)!r} does not exist")
        documents = build(flag_values.num_workers)
        text = "\n".join("\n".join(document) + "\n" for _, document in documents)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(text, encoding="utf-8", newline="\n")
        os.replace(partial, path)  # It has its name only now that it is whole.
    print(f"{path}: {summary(documents, len(text.encode('utf-8')))}")


if __name__ == "__main__":
    binary.run(main, define_flags)
