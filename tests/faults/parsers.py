"""Every parser of outside input, with content that it takes."""

import collections
import dataclasses
import functools
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import tarfile
import unittest.mock
from collections.abc import Callable, Sequence
from typing import Any
from xml.sax import saxutils

import numpy as np
import pydantic
import tensorflow as tf
from google.protobuf import message

from albert_tf.core import config, config_io, locks, strict_json
from albert_tf.data import schema
from albert_tf.devices import strategies
from albert_tf.interchange import (
    archive_download,
    hugging_face_files,
    hugging_face_weights,
    keras_hub_files,
    tf1_weights,
)
from albert_tf.tasks import features, predictions
from albert_tf.tokenization import tokenizer
from albert_tf.web import schemas
from data_prep.pipeline import work_file
from data_prep.reading import blocks, formats
from data_prep.records import reader as record_reader
from data_prep.verification import shards
from tests.binaries import test_hostile_json
from tests.faults import damaged_data
from tests.support import small_rows, small_run


@dataclasses.dataclass(frozen=True)
class Parser:
    """A parser, and what it is fed with.

    Attributes:
      name: of what it parses.
      read: parses damaged content, within a folder of its own.
      valid: content that it takes, which is damaged.
      names_file: whether its errors must name the folder.
      is_taken: whether `read` takes the valid content as it is.
    """

    name: str
    read: Callable[[pathlib.Path, bytes], Any]
    valid: bytes
    names_file: bool = True
    is_taken: bool = True


def _within(name: str, read: Callable[[str], Any]) -> Callable[..., Any]:
    """A reader of a file of a folder, from its content."""

    def write_and_read(folder: pathlib.Path, content: bytes) -> Any:
        (folder / name).write_bytes(content)
        return read(str(folder / name))

    return write_and_read


# ---- JSON ----


# The readers of `test_hostile_json` by what they read; all others are of own files.
_OF_DATA = (
    *("manifest", "manifest to verify", "corpus", "suite", "published results"),
    *("SQuAD", "RACE", "table"),
)
_OF_MODELS = (
    *("OpenVINO", "Hugging Face", "tokenizer of Hugging Face"),
    *("index of Hugging Face", "the original", "albert_zh", "KerasHub"),
    *("task of KerasHub", "index of KerasHub"),
)
_OF_THIS_PROJECT = tuple(
    name
    for name in test_hostile_json.READERS
    if name not in _OF_DATA and name not in _OF_MODELS
)


def _json(names: Sequence[str], _: pathlib.Path) -> list[Parser]:
    found = []
    for name in names:
        one = test_hostile_json.READERS[name]

        def read(folder: pathlib.Path, content: bytes, one=one) -> Any:
            test_hostile_json._write(folder, one, content)
            return one.read(str(folder))

        content = json.dumps(one.valid).encode() + b"\n"
        # Of these only the configuration is given, without the weights.
        is_whole = name not in test_hostile_json.NOT_READ
        found.append(Parser(f"JSON: {name}", read, content, is_taken=is_whole))
    return found


def _requests(_: pathlib.Path) -> list[Parser]:
    found = []
    for endpoint in schemas.ENDPOINTS:

        def validate(_: pathlib.Path, content: bytes, endpoint=endpoint) -> Any:
            try:
                return endpoint.request.model_validate_json(content)
            except pydantic.ValidationError as error:  # which is answered with 422
                raise ValueError("not a request") from error

        example = endpoint.request.model_config["json_schema_extra"]
        valid = json.dumps(example["examples"][0]).encode()
        found.append(Parser(f"request: {endpoint.name}", validate, valid, False))
    return found


# ---- Texts ----

_DUMP = b"""<mediawiki><page><title>Tea &amp; milk</title><ns>0</ns><revision>
<model>wikitext</model><text xml:space="preserve">{{Infobox}}'''Tea''' is a [[drink|hot
drink]].&lt;ref&gt;A book&lt;/ref&gt;

== Notes ==
{| class="a"
| cell
|}
[[Category:Tea]]</text></revision></page></mediawiki>
"""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXTS = {
    "text": b"One line.\nTwo lines.\n\nAnother \xc3\xbc document.\n",
    "lines": b"One document.\nAnother.\n",
    "wikiextractor": b'<doc id="1" url="u" title="t">\nTea\n\nIs hot.\n</doc>\n',
    "mediawiki": _DUMP,
}


def _texts(_: pathlib.Path) -> list[Parser]:
    found = []
    for name, valid in _TEXTS.items():
        text = config.TextConfig(input_format=name)

        def read(folder: pathlib.Path, content: bytes, text=text) -> Any:
            path = folder / "texts"
            path.write_bytes(content)
            group = blocks.Group(0, (str(path),))
            return [
                blocks.parse_block(block, text)
                for block in blocks.iter_blocks(group, text, 1 << 20)
            ]

        found.append(Parser(f"texts: {name}", read, valid))

    return [*found, wikitext()]


def wikitext() -> Parser:
    """The parser of a page of a dump, with the bound of its markup."""

    def markup(_: pathlib.Path, content: bytes) -> Any:
        text = _NOT_IN_XML.sub(" ", content.decode(errors="replace"))
        revision = f"<revision><text>{saxutils.escape(text)}</text></revision>"
        page = f"<page><ns>0</ns>{revision}</page>"
        bounds, counts = config.TextConfig(), collections.Counter()
        return list(formats.parse_mediawiki(page, "dump", 1, bounds, counts))

    return Parser("texts: wikitext", markup, _DUMP.partition(b"preserve")[2], False)


# ---- Tables of tasks ----


def _tables(_: pathlib.Path) -> list[Parser]:
    read_task = test_hostile_json._read_task_data

    def of(name: str, file_name: str, valid: bytes) -> Parser:
        read = read_task(name)

        def write_and_read(folder: pathlib.Path, content: bytes) -> Any:
            (folder / file_name).write_bytes(content)
            return read(str(folder))

        return Parser(f"task: {name} ({file_name})", write_and_read, valid)

    quoted = b'text,label\n"a, ""b""",a\nc,b\n'
    return [
        of("cola", "train.tsv", b"a\t1\t*\tThe cat sat.\na\t0\t\tSat the.\n"),
        of("sst2", "train.tsv", b"sentence\tlabel\na film\t1\nno\t0\n"),
        of(
            "stsb",
            "train.tsv",
            b"sentence1\tsentence2\tscore\nIt rains.\tA storm.\t1.5\n",
        ),
        of(
            "conll",
            "train.txt",
            b"-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nsat V O O\n",
        ),
        of("table", "train.tsv", b"text\tlabel\na\ta\nc\tb\n"),
        of("table", "train.csv", quoted),
    ]


# ---- Binary files ----


def _binary(folder: pathlib.Path) -> list[Parser]:
    folder.mkdir(parents=True)
    found = [
        Parser(
            "vocabulary",
            _within("a.model", tokenizer.Tokenizer.from_file),
            small_run.VOCAB.read_bytes(),
        )
    ]
    for suffix in damaged_data.COMPRESS:
        made = folder / f"made{suffix}"
        made.mkdir(exist_ok=True)
        damaged_data.make_texts(suffix, made, 1)
        (path,) = made.iterdir()

        def read_texts(inner: pathlib.Path, content: bytes, name=path.name) -> Any:
            (inner / name).write_bytes(content)
            return damaged_data.documents(inner / name)

        valid = path.read_bytes()
        found.append(Parser(f"texts: {suffix}", read_texts, valid))
    rows = small_rows.make("classification", 5)
    logits = predictions.Logits(np.ones([2, 3], np.float32))
    found += [
        Parser(
            "features",
            lambda _, content: features.from_bytes(content),
            features.to_bytes(rows),
            False,
        ),
        Parser(
            "predictions",
            lambda _, content: predictions.from_bytes(content),
            predictions.to_bytes(["a", "b"], logits),
            False,
        ),
        *_of_records(folder),
        *_of_weights(folder),
        Parser("archive", _read_archive, _archive()),
    ]
    return found


_TAR_BLOCK = 512


def _archive() -> bytes:
    """A tar archive, not compressed, with names of each kind."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as opened:
        for name in ("albert/albert_config.json", f"albert/{'x' * 120}"):
            member = tarfile.TarInfo(name)
            member.size = 5
            member.pax_headers = {"comment": "\u00fc"}
            opened.addfile(member, io.BytesIO(b"12345"))
    return packed.getvalue()


def _read_archive(folder: pathlib.Path, content: bytes) -> Any:
    """Extracts an archive whose headers have the checksums that damage had made wrong.

    gzip and the checksums would find most damage before the headers are read.
    """
    chunks = [
        content[start : start + _TAR_BLOCK]
        for start in range(0, len(content), _TAR_BLOCK)
    ]
    for number, block in enumerate(chunks):
        if block[257:262] == b"ustar":
            plain = block[:148] + b" " * 8 + block[156:]
            checksum = b"%06o\0 " % sum(plain)
            chunks[number] = block[:148] + checksum + block[156:]
    packed, target = folder / "a.tar.gz", folder / "extracted"
    packed.write_bytes(gzip.compress(b"".join(chunks), 1))
    shutil.rmtree(target, ignore_errors=True)
    archive_download._extract(str(packed), str(target), str(packed))
    outside = {path.name for path in folder.iterdir()} - {packed.name, target.name}
    if outside:
        raise AssertionError(f"written outside of the folder: {outside}")


def _of_records(folder: pathlib.Path) -> list[Parser]:
    example = tf.train.Example()
    masking = config.DataConfig().masking
    for name, kind in schema.record_features(masking).items():
        feature = example.features.feature[name]
        if kind == "int64":
            feature.int64_list.value.append(3)
        else:
            feature.bytes_list.value.append(bytes(4))
    record = example.SerializeToString()
    shard = folder / "a.tfrecord"
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for _ in range(4):
            writer.write(record)
    work = folder / "work"
    work_file.write(str(work), {"a": 3}, {"ids": np.arange(9)}, [b"one", b"two"])

    def parse(_: pathlib.Path, content: bytes) -> Any:
        try:
            return record_reader.parse_record(content, masking, 4000)
        except message.DecodeError as error:
            # Records have checksums; protobuf's own error is for those that have none.
            raise ValueError("not a record") from error

    def read_shard(path: str) -> Any:
        found = shards.read_shard(path, None, True, lambda _: None)
        if found.fault:  # which verify says with the name of the shard
            raise ValueError(f"{path}: {found.fault}")
        return found

    def open_work(path: str) -> Any:
        with work_file.opened(path) as content:
            return content.values, content.arrays()

    return [
        Parser("record", parse, record, False),
        Parser(
            "shard",
            _within("a.tfrecord", read_shard),
            shard.read_bytes(),
        ),
        Parser(
            "unfinished work",
            _within("work", open_work),
            work.read_bytes(),
        ),
    ]


def _of_weights(folder: pathlib.Path) -> list[Parser]:
    arrays = {"a": np.ones([3, 5], np.float32), "b": np.zeros([2], np.float32)}
    hugging_face_weights.write(str(folder), arrays)
    tf1_weights.save_variables(str(folder / "model.ckpt"), arrays)
    import h5py  # as KerasHub writes it

    with h5py.File(folder / "a.h5", "w") as file:
        for name, value in arrays.items():
            file[f"vars/{name}"] = value
    data = folder / "model.ckpt.data-00000-of-00001"

    def read_checkpoint(inner: pathlib.Path, content: bytes) -> Any:
        (inner / "model.ckpt.index").write_bytes(content)
        (inner / data.name).write_bytes(data.read_bytes())
        return tf1_weights.read_variables(str(inner / "model.ckpt"))

    return [
        Parser(
            "safetensors",
            _within("a.safetensors", lambda path: hugging_face_weights.read([path])),
            (folder / hugging_face_files.WEIGHTS).read_bytes(),
        ),
        Parser(
            "HDF5",
            _within(
                "a.h5", lambda path: keras_hub_files.require_arrays([path], [(3, 5)])
            ),
            (folder / "a.h5").read_bytes(),
        ),
        Parser(
            "checkpoint",
            read_checkpoint,
            (folder / "model.ckpt.index").read_bytes(),
        ),
    ]


# ---- What is given to commands ----

_CLUSTER = (
    b'{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
)


def _read_cluster(_: pathlib.Path, content: bytes) -> Any:
    text = content.decode(errors="replace").replace("\0", "")
    with unittest.mock.patch.dict(os.environ, {"TF_CONFIG": text}):
        return strategies._num_workers()


def _commands(_: pathlib.Path) -> list[Parser]:
    def override(_: pathlib.Path, content: bytes) -> Any:
        settings = content.decode(errors="replace").split("\n")
        return config_io.override(config.Config(), settings)

    settings = (
        "train.num_steps=300\noptimizer.exclude_patterns=('bias',)\n"
        "model.hidden_dropout_rate=0.1\ntrain.records={'wiki': 1.0, 'books': 2.0}\n"
        "data.pair_loss=sop"
    )
    held = json.dumps(dataclasses.asdict(locks.Holder.here())).encode()
    return [
        Parser("--set", override, settings.encode(), False),
        Parser("TF_CONFIG", _read_cluster, _CLUSTER, False),
        Parser(
            "lock", lambda _, content: locks.Holder.from_bytes(content), held, False
        ),
        Parser(
            "JSON",
            lambda _, content: strict_json.loads(content.decode(errors="replace"), "x"),
            b'{"a": [1, 2.5e3, null, true, "\\u00e9\\n"], "b": {"c": -3}}',
            False,
        ),
    ]


# By the names of their kinds; each is given a folder to make valid files in.
GROUPS: dict[str, Callable[[pathlib.Path], list[Parser]]] = {
    "json": functools.partial(_json, _OF_THIS_PROJECT),
    "json-data": functools.partial(_json, _OF_DATA),
    "json-models": functools.partial(_json, _OF_MODELS),
    "requests": _requests,
    "texts": _texts,
    "tables": _tables,
    "binary": _binary,
    "commands": _commands,
}
