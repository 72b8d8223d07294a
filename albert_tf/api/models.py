"""Models to ask: fill masks, embed, classify, tag, answer, choose, probe.

Shapes: T texts, H hidden.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from albert_tf.api import arguments
from albert_tf.checkpoints import run_vocab
from albert_tf.core import checksums, config_io, files, validation
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.finetuning import results_reader
from albert_tf.inference import saved_model, saved_model_dir, signatures
from albert_tf.probing import probe, scoring, settings, suites
from albert_tf.serving import load as serving_load
from albert_tf.serving import token_scorer
from albert_tf.tokenization import tokenizer as tokenizer_lib

POOLINGS = ("mean", "pooled")
_BATCH_SIZE = 32

Answer = dict[str, Any]
_Found = TypeVar("_Found")


def load(
    path: str | os.PathLike[str],
    compute_dtype: str | None = None,
    checkpoint: str | os.PathLike[str] = "",
    weights: str = config_lib.WEIGHTS[0],
) -> "Model":
    """Loads a model.

    Args:
      path: directory of a run of albert_tf.pretrain or albert_tf.finetune, of a
        model that albert_tf.convert wrote as a run, or of one that albert_tf.export
        wrote with --form=text or --form=openvino.
      compute_dtype: "float32" or "bfloat16", of the blocks; default: that of the run.
        Not for an exported model.
      checkpoint: prefix of a checkpoint of the run, such as "run/model.ckpt-500";
        default: the newest of a pre-training, the best of a fine-tuning.
      weights: "averaged" for the moving average of `train.ema_decay` if the run has
        one, or "trained".

    Raises:
      ValueError: there is no such model, or an argument does not suit it.
    """
    path = arguments.path_of(path, "path")
    arguments.require_weights(weights)
    if saved_model_dir.is_saved_model(path):
        if compute_dtype or checkpoint or weights != config_lib.WEIGHTS[0]:
            raise ValueError(
                "compute_dtype, checkpoint and weights must be omitted for an exported "
                f"model, which has them since its export; received them for {path}"
            )
        return Model(path, saved_model.load(path))
    arguments.require_run(path)
    checkpoint = arguments.checkpoint_of(checkpoint)
    with arguments.named(model_dir="path"):
        module, _ = serving_load.load_serving(
            path, checkpoint, compute_dtype, weights=weights
        )
    return Model(path, module)


def load_tokenizer(path: str | os.PathLike[str]) -> tokenizer_lib.Tokenizer:
    """Loads the tokenizer of a run or of an exported model, or a vocabulary.

    Args:
      path: a directory as `load` takes it, or a SentencePiece .model file, with which
        texts are lower-cased.

    Raises:
      ValueError: there is no vocabulary.
    """
    path = arguments.path_of(path, "path")
    if not files.is_folder(path):
        arguments.require_present(path, "file or directory")
        return tokenizer_lib.Tokenizer.from_file(path, lower_case=True)
    extra = os.path.join(path, saved_model_dir.EXTRA)
    checksums.check(path)
    folder = extra if saved_model_dir.is_saved_model(path) else path
    arguments.require_run(folder)
    folder = results_reader.best_folder(folder)
    config = config_io.read(os.path.join(folder, schema.CONFIG_FILE))
    run_vocab.check(folder)
    return tokenizer_lib.Tokenizer.from_file(
        os.path.join(folder, schema.VOCAB_FILE), config.data.lower_case
    )


class Model:
    """A model that answers texts; made by `load`.

    Each method takes one example and returns its answer, or a list of examples and
    returns a list of answers, as `albert_tf.predict --json` prints them; an `Answer` is
    a `dict[str, Any]`. Long lists are computed in batches of 32 examples of like
    lengths.

    Attributes:
      path: its directory.
      signatures: the names of what it can do: "encode", "fill_mask", "sentence_order"
        and "score_tokens" of a pre-trained model; "classify", "tag", "answer" or
        "choose" of a fine-tuned one.
    """

    def __init__(self, path: str, loaded: Any):
        self.path = path
        self.signatures = tuple(loaded.signatures)
        self._loaded = loaded

    def __repr__(self) -> str:
        return f"<albert_tf.Model {self.path}: {', '.join(self.signatures)}>"

    # Some overloads overlap, since a text is a sequence of texts too, and a tuple of
    # texts one of examples: the first that fits is meant.
    @overload
    def fill_mask(  # type: ignore[overload-overlap]
        self, text: str, top_k: int = ...
    ) -> Answer: ...
    @overload
    def fill_mask(self, text: Sequence[str], top_k: int = ...) -> list[Answer]: ...
    def fill_mask(
        self, text: str | Sequence[str], top_k: int = 5
    ) -> Answer | list[Answer]:
        """Finds the most probable pieces for each [MASK].

        Args:
          text: one or several, each with at least one "[MASK]".
          top_k: number of candidates.

        Returns:
          For each text a dict of `text`; `filled`, the text with the best pieces; and
          `masks`: for each mask a list of dicts of `token` (a piece of the vocabulary;
          "▁" marks the beginning of a word) and `probability`, best first.

        Raises:
          ValueError: a text has no [MASK] or one beyond the end of the model's input,
            or the model has no such head.
        """
        # True is an integer too.
        if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
            raise ValueError(f"top_k must be an integer from 1 on; received {top_k!r}")

        def fill(call, texts: Sequence[Sequence[str]]) -> list[Answer]:
            return saved_model.fill_all(call, [one for (one,) in texts], top_k)

        return self._ask("fill_mask", fill, text, "a text", 1, 1)

    def embed(self, text: str | Sequence[str], pooling: str = "mean") -> np.ndarray:
        """Computes embeddings.

        Args:
          text: one or several.
          pooling: "mean" of the last layer over all tokens, or "pooled", the output of
            the layer that sentence-order prediction trained, for [CLS].

        Returns:
          float32 [H] of one text, [T, H] of a list.

        Raises:
          ValueError: there is no such pooling, or the model is fine-tuned.
        """
        if pooling not in POOLINGS:
            raise ValueError(
                f"pooling must be one of {', '.join(POOLINGS)}; received {pooling!r}"
            )

        def encode(call, texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
            embeddings = saved_model.embed(call, [one for (one,) in texts])
            return list(getattr(embeddings, pooling))

        found = self._ask("encode", encode, text, "a text", 1, 1, method="embed")
        if isinstance(found, list) and not found:
            (row,) = encode(self._signature("encode"), [("",)])
            return np.zeros([0, len(row)], np.float32)
        return np.asarray(found, np.float32)

    @overload
    def sentence_order(self, pair: tuple[str, str]) -> Answer: ...
    @overload
    def sentence_order(
        self, pair: Sequence[tuple[str, str] | list[str]]
    ) -> list[Answer]: ...
    def sentence_order(
        self, pair: tuple[str, str] | Sequence[tuple[str, str] | list[str]]
    ) -> Answer | list[Answer]:
        """Computes how probably two texts are in the order in which they are given.

        Args:
          pair: a tuple of two texts, or a list of such pairs.

        Returns:
          For each pair a dict of `first`, `second` and `probability`, that in the
          document `first` came directly before `second` rather than after it.
        """
        ask = saved_model.sentence_orders
        return self._ask("sentence_order", ask, pair, "two texts", 2, 2)

    @overload
    def classify(  # type: ignore[overload-overlap]
        self, example: str | tuple[str, ...]
    ) -> Answer: ...
    @overload
    def classify(
        self, example: Sequence[str | tuple[str, ...] | list[str]]
    ) -> list[Answer]: ...
    def classify(
        self,
        example: str | tuple[str, ...] | Sequence[str | tuple[str, ...] | list[str]],
    ) -> Answer | list[Answer]:
        """Finds classes, or numbers where the model was trained on numbers.

        Args:
          example: a text or a tuple of two texts, or a list of them.

        Returns:
          For each a dict of `text`, `pair` if there is one, and `label`, `probability`
          and `probabilities` by label, or `score`.
        """
        return self._ask_form("classify", example)

    @overload
    def tag(self, text: str) -> Answer: ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, text: Sequence[str]) -> list[Answer]: ...
    def tag(self, text: str | Sequence[str]) -> Answer | list[Answer]:
        """Labels words.

        Args:
          text: one or several.

        Returns:
          For each a dict of `text` and `words`: dicts of `word`, `start`, `end` (in
          characters), `label` and `probability`.
        """
        return self._ask_form("tag", text)

    @overload
    def answer(self, example: tuple[str, str]) -> Answer: ...
    @overload
    def answer(
        self, example: Sequence[tuple[str, str] | list[str]]
    ) -> list[Answer]: ...
    def answer(
        self, example: tuple[str, str] | Sequence[tuple[str, str] | list[str]]
    ) -> Answer | list[Answer]:
        """Answers questions on texts.

        Args:
          example: a tuple of a question and a text, or a list of them.

        Returns:
          For each a dict of `question`, `context`, `answer` (empty: none is found),
          `start`, `end` and `probability`: of the answer among the candidates, or that
          there is none. A model that can find none adds `null_odds`, nats.
        """
        return self._ask_form("answer", example)

    @overload
    def choose(self, example: tuple[str, ...]) -> Answer: ...
    @overload
    def choose(
        self, example: Sequence[tuple[str, ...] | list[str]]
    ) -> list[Answer]: ...
    def choose(
        self, example: tuple[str, ...] | Sequence[tuple[str, ...] | list[str]]
    ) -> Answer | list[Answer]:
        """Chooses options.

        Args:
          example: a tuple of a text, a question, and two options or more; or a list of
            them.

        Returns:
          For each a dict of `choice` (counted from 0), `answer`, `probabilities` and
          what was given.
        """
        return self._ask_form("choose", example)

    def probe(
        self,
        pairs: str
        | os.PathLike[str]
        | tuple[str, str]
        | Sequence[tuple[str, str] | list[str]],
        metric: str = settings.PLL,
        pairs_per_paradigm: int = 0,
    ) -> probe.Probed:
        """Scores the sentences of minimal pairs by their pseudo-log-likelihood.

        Args:
          pairs: a grammatical and an ungrammatical sentence each, at least one; or the
            path of a suite as albert_tf.probe takes it, such as the directory of BLiMP.
          metric: "pll", or "within_word" for the score of Kauf and Ivanova.
          pairs_per_paradigm: how many of each paradigm of a suite; 0 for all.

        Returns:
          The scores, and accuracies with intervals.

        Raises:
          ValueError: the model has no masked-LM head, there is no pair, or none is
            short enough.
        """
        validation.require_choice("metric", metric, settings.METRICS)
        if isinstance(pairs, str | os.PathLike):
            path = arguments.path_of(pairs, "pairs")
            found = suites.read(path, pairs_per_paradigm)
        else:
            what = "a grammatical and an ungrammatical sentence"
            given = arguments.examples_of(pairs, "probe", what, 2, 2).texts
            validation.require(len(given) > 0, "pairs must hold a pair", pairs)
            found = [suites.Pair("pairs", "", good, bad) for good, bad in given]
        return probe.probe(self._scorer, found, metric)

    @functools.cached_property
    def _scorer(self) -> scoring.Scorer:
        """Scores tokens with the weights that were loaded."""
        self._signature(token_scorer.SIGNATURE)
        return token_scorer.of_loaded(self._loaded, self.path)

    def _signature(self, name: str) -> Any:
        """Returns a signature.

        Raises:
          ValueError: the model has none of this name.
        """
        if name not in self.signatures:
            raise ValueError(
                f"the model must have the signature {name}; {self.path} has "
                f"{', '.join(self.signatures)}"
            )
        return self._loaded.signatures[name]

    def _ask_form(self, name: str, example: Any) -> Answer | list[Answer]:
        form = signatures.FORMS[name]
        return self._ask(name, form.ask, example, form.fields, form.least, form.most)

    def _ask(
        self,
        name: str,
        ask: Callable[[Any, Sequence[Any]], list[_Found]],
        given: Any,
        what: str,
        least: int,
        most: int | None,
        method: str = "",
    ) -> _Found | list[_Found]:
        """Returns the answer of one example, or those of a list in its order.

        Args:
          name: of the signature.
          ask: maps the signature and a batch of examples to answers.
          given: what the method was called with, and the next three as
            `arguments.examples_of` takes them.
          what: an example.
          least: its minimum number of texts.
          most: its maximum number of texts.
          method: the name of the method, if it is not that of the signature.
        """
        call = self._signature(name)
        examples, is_single = arguments.examples_of(
            given, method or name, what, least, most
        )
        if is_single:
            return ask(call, examples)[0]
        lengths = [sum(map(len, texts)) for texts in examples]
        order = sorted(range(len(examples)), key=lengths.__getitem__)
        answers: dict[int, _Found] = {}
        for first in range(0, len(order), _BATCH_SIZE):
            numbers = order[first : first + _BATCH_SIZE]
            found = ask(call, [examples[number] for number in numbers])
            answers.update(zip(numbers, found, strict=True))
        return [answers[number] for number in range(len(examples))]
