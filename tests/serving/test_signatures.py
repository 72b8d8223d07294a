"""SavedModels of fine-tuned models: strings in, the answers of the model out."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config_io
from albert_tf.serving import load, packing, signature, span_search
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import fine_tuned

# Six models are built and traced.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        # Above this threshold lie some questions, and some below.
        kind: fine_tuned.write(
            folder / kind, kind, calibration={"null_odds_threshold": 0.6}
        )
        for kind in fine_tuned.KINDS
    }


@pytest.fixture(scope="module")
def servings(runs):
    return {kind: load.load_serving(str(run))[0] for kind, run in runs.items()}


@pytest.fixture(scope="module")
def tokenizer(runs):
    return tokenizer_lib.Tokenizer.from_file(str(runs["span"] / "vocab.model"))


def settings_of(run):
    return config_io.from_json((run / "config.json").read_text())


def model_of(run, kind, step=2):
    """The model of a checkpoint, outside of any serving."""
    return fine_tuned.model(kind, step, settings_of(run))


def infer(model, rows, p_masks=None):
    """What a model finds in one row at a time, `rows` being (ids, num_first)."""
    found = []
    for number, (ids, num_first) in enumerate(rows):
        features = {
            "input_ids": tf.constant([ids]),
            "input_mask": tf.ones([1, len(ids)], tf.int32),
            "segment_ids": tf.constant(
                [[int(i >= num_first) for i in range(len(ids))]]
            ),
        }
        if p_masks:
            features["p_mask"] = tf.constant([p_masks[number]])
        if model.head.input_rank == 3:
            features = {name: value[:, None] for name, value in features.items()}
        found.append(model.infer(features))
    return found


def truncated(first, second, room):
    """The original's way to cut a pair."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        if len(first) > len(second):
            first.pop()
        else:
            second.pop()
    return first, second


def framed(tokenizer, first, second=None):
    """Ids of a row, and the tokens of its first segment."""
    ids = [tokenizer.cls_id, *first, tokenizer.sep_id]
    num_first = len(ids)
    if second is not None:
        ids += [*second, tokenizer.sep_id]
    return ids, num_first


def pair_rows(tokenizer):
    rows = []
    for text, pair in zip(fine_tuned.TEXTS, fine_tuned.PAIRS, strict=True):
        first, second = tokenizer.encode(text), tokenizer.encode(pair)
        if pair:
            rows.append(framed(tokenizer, *truncated(first, second, 24 - 3)))
        else:
            rows.append(framed(tokenizer, first[: 24 - 2]))
    return rows


def rows_of(features):
    """Each row of features without padding, which must be as it should."""
    found = []
    for ids, mask, segments in zip(
        *(
            features[name].numpy()
            for name in ("input_ids", "input_mask", "segment_ids")
        ),
        strict=True,
    ):
        length = mask.sum()
        assert mask.tolist() == [1] * length + [0] * (len(mask) - length)
        assert not ids[length:].any() and not segments[length:].any()
        num_first = length - segments.sum()
        assert segments[num_first:length].all()
        found.append((ids[:length].tolist(), num_first))
    return found


# ---- Features ----


def test_pairs_are_cut_as_the_original_cuts_them():
    lengths = [
        (a, b, room) for a in range(9) for b in range(9) for room in range(1, 12)
    ]
    first, second, room = (tf.constant(values) for values in zip(*lengths, strict=True))
    kept = packing.pair_lengths(first, second, room)
    assert list(zip(*(values.numpy().tolist() for values in kept), strict=True)) == [
        tuple(map(len, truncated(range(a), range(b), most))) for a, b, most in lengths
    ]


def test_pairs_have_the_features_of_fine_tuning(servings, tokenizer):
    features = servings["classification"].features(
        tf.constant(fine_tuned.TEXTS), tf.constant(fine_tuned.PAIRS)
    )
    rows = rows_of(features)
    assert rows == pair_rows(tokenizer)
    assert [len(ids) for ids, _ in rows][-1] == 24 and rows[-1][1] == 24


def test_options_have_the_features_of_fine_tuning(servings, tokenizer):
    features = servings["multiple_choice"].features(
        tf.constant(fine_tuned.TEXTS),
        tf.constant(fine_tuned.QUESTIONS),
        tf.constant(fine_tuned.OPTIONS),
    )
    expected = choice_rows(tokenizer)
    assert rows_of(features) == expected
    assert "1990" in tokenizer.decode(expected[2][0])  # the long option fills a blank


def choice_rows(tokenizer):
    rows = []
    for context, question, options in zip(
        fine_tuned.TEXTS, fine_tuned.QUESTIONS, fine_tuned.OPTIONS, strict=True
    ):
        for option in options:
            option = option.strip()
            asked = question.replace("_", option)
            if "_" not in question:
                asked = f"{question} {option}"
            second = tokenizer.encode(asked)[-9:]
            first = tokenizer.encode(context)[: 24 - 3 - len(second)]
            rows.append(framed(tokenizer, first, second))
    return rows


def windows_of(question, context, settings):
    """(query, begin, end) of the windows, and whether tokens see most: the original's.

    Args:
      question: ids.
      context: ids.
      settings: lengths.
    """
    query = question[: settings.max_query_length]
    room = settings.max_seq_length - len(query) - 3
    spans, begin = [], 0
    while True:
        end = min(begin + room, len(context))
        spans.append((begin, end))
        if end == len(context):
            break
        begin += min(settings.doc_stride, room)

    def around(span, place):
        begin, end = span
        if not begin <= place < end:
            return -1.0
        return min(place - begin, end - 1 - place) + 0.01 * (end - begin)

    is_max = [
        [
            max(range(len(spans)), key=lambda n: around(spans[n], place)) == number
            for place in range(*span)
        ]
        for number, span in enumerate(spans)
    ]
    return query, spans, is_max


def test_windows_are_the_originals(servings, runs, tokenizer):
    settings = settings_of(runs["span"]).task
    cut, _ = servings["span"].windows(
        tf.constant(fine_tuned.PAIRS), tf.constant(fine_tuned.TEXTS)
    )
    expected, p_masks, is_max, owners = [], [], [], []
    for number, (question, text) in enumerate(
        zip(fine_tuned.PAIRS, fine_tuned.TEXTS, strict=True)
    ):
        context = tokenizer.encode(text)
        query, spans, most = windows_of(tokenizer.encode(question), context, settings)
        for (begin, end), seen in zip(spans, most, strict=True):
            expected.append(framed(tokenizer, query, context[begin:end]))
            length = end - begin
            p_masks.append([0] + [1] * (len(query) + 1) + [0] * length + [1])
            is_max.append([False] * (len(query) + 2) + seen + [False])
            owners.append(number)
    assert rows_of(cut.features) == expected
    assert len(expected) == 11 and owners == cut.text_index.numpy().tolist()
    width = cut.features["p_mask"].shape[1]
    assert cut.features["p_mask"].numpy().tolist() == [
        row + [1] * (width - len(row)) for row in p_masks
    ]
    assert cut.is_max_context.numpy().tolist() == [
        row + [False] * (width - len(row)) for row in is_max
    ]


# ---- Answers ----


def test_texts_without_pairs_need_no_pair(servings):
    serving, texts = servings["classification"], tf.constant(fine_tuned.TEXTS)
    without = serving.classify(texts, tf.fill(tf.shape(texts), ""))
    found = serving.classify(texts)
    np.testing.assert_array_equal(found["probability"], without["probability"])
    assert "Finds the class of each text" in signature.describe(serving.signatures)


def test_classes_and_numbers_are_those_of_the_model(servings, runs, tokenizer):
    rows = pair_rows(tokenizer)
    found = servings["classification"].classify(
        tf.constant(fine_tuned.TEXTS), tf.constant(fine_tuned.PAIRS)
    )
    labels = ["contradiction", "entailment", "neutral"]
    assert [label.decode() for label in found["labels"].numpy()] == labels
    model = model_of(runs["classification"], "classification")
    for number, outputs in enumerate(infer(model, rows)):
        expected = outputs.probabilities[0].numpy()
        np.testing.assert_allclose(found["probability"][number], expected, atol=1e-5)
        assert found["label"][number].numpy().decode() == labels[expected.argmax()]
    assert len(set(found["label"].numpy())) > 1

    scores = servings["regression"].classify(
        tf.constant(fine_tuned.TEXTS), tf.constant(fine_tuned.PAIRS)
    )
    model = model_of(runs["regression"], "regression")
    expected = [float(outputs.predictions[0]) for outputs in infer(model, rows)]
    np.testing.assert_allclose(scores["score"], expected, atol=1e-5)
    assert np.ptp(expected) > 0.01


def test_every_word_has_the_label_of_its_first_piece(servings, runs, tokenizer):
    found = servings["token_classification"].tag(tf.constant(fine_tuned.TEXTS))
    found = {name: value.numpy() for name, value in found.items()}
    model = model_of(runs["token_classification"], "token_classification")
    labels = fine_tuned.KINDS["token_classification"][1]
    number = 0
    for index, text in enumerate(fine_tuned.TEXTS):
        pieces = [tokenizer.encode(word) for word in text.split()]
        flat = [piece for row in pieces for piece in row]
        # A long text goes on in further rows.
        rows = [framed(tokenizer, flat[i : i + 22]) for i in range(0, len(flat), 22)]
        probabilities = np.concatenate(
            [o.probabilities[0, 1:-1].numpy() for o in infer(model, rows)]
            or [np.zeros([0, 5])]
        )
        place = 0
        for word, row in zip(text.split(), pieces, strict=True):
            assert found["word"][number].decode() == word
            start, end = found["start"][number], found["end"][number]
            assert text[start:end] == word
            assert found["text_index"][number] == index
            expected = probabilities[place]
            assert found["label"][number].decode() == labels[expected.argmax()]
            assert abs(found["probability"][number] - expected.max()) < 1e-5
            place += len(row)
            number += 1
    assert number == len(found["word"]) > 60 and len(set(found["label"])) > 1


def test_the_option_is_the_one_the_model_prefers(servings, runs, tokenizer):
    found = servings["multiple_choice"].choose(
        tf.constant(fine_tuned.TEXTS),
        tf.constant(fine_tuned.QUESTIONS),
        tf.constant(fine_tuned.OPTIONS),
    )
    model = model_of(runs["multiple_choice"], "multiple_choice")
    logits = [float(o.logits[0, 0]) for o in infer(model, choice_rows(tokenizer))]
    expected = tf.nn.softmax(np.reshape(logits, [4, 3])).numpy()
    np.testing.assert_allclose(found["probability"], expected, atol=1e-5)
    assert found["choice"].numpy().tolist() == expected.argmax(1).tolist()


def best_of(question, text, settings, tokenizer, serving, candidates):
    """The original's search, in Python, without its leave to start in padding.

    Args:
      question, text: strings.
      settings: lengths.
      tokenizer: of the model.
      serving: gives the offsets, which have a test of their own.
      candidates: from a row (ids, num_first, p_mask) to (score, start, end)s.

    Returns:
      answer, start, end, probability.
    """
    aligned = serving.tokenizer.encode_with_offsets([text])
    ids, starts, ends = (values[0].numpy().tolist() for values in aligned)
    query, spans, is_max = windows_of(tokenizer.encode(question), ids, settings)
    found = []
    for (begin, stop), seen in zip(spans, is_max, strict=True):
        row, num_first = framed(tokenizer, query, ids[begin:stop])
        p_mask = [0] + [1] * (num_first - 1) + [0] * (stop - begin) + [1]
        for score, first, last in candidates((row, num_first), p_mask):
            first, last = first - num_first, last - num_first
            if (
                0 <= first <= last < stop - begin
                and seen[first]
                and last - first < settings.max_answer_length
            ):
                found.append((score, first + begin, last + begin))
    found.sort(key=lambda entry: -entry[0])
    n_best = {}
    for score, first, last in found:
        start, end = starts[first], ends[last]
        n_best.setdefault(text[start:end] if end > start else "", (score, start, end))
    n_best = list(n_best.items())[: settings.n_best_size]
    if not n_best:
        return "", -1, -1, 1.0
    scores = np.array([score for _, (score, _, _) in n_best])
    answer, (_, start, end) = n_best[0]
    shares = np.exp(scores - scores.max())
    return answer, start, end, (shares / shares.sum())[0]


def check_answers(found, number, expected):
    """One answer against (answer, start, end, probability)."""
    answer, start, end, probability = expected
    assert found["answer"][number].numpy().decode() == answer
    assert (found["start"][number], found["end"][number]) == (start, end)
    assert abs(float(found["probability"][number]) - probability) < 1e-5


def test_answers_are_the_best_spans_of_all_windows(servings, runs, tokenizer):
    settings = settings_of(runs["span"]).task
    model = model_of(runs["span"], "span")

    def candidates(row, p_mask):
        (outputs,) = infer(model, [row])
        start, end = outputs.start_logits[0].numpy(), outputs.end_logits[0].numpy()
        for i in np.argsort(-start, kind="stable")[: settings.n_best_size]:
            for j in np.argsort(-end, kind="stable")[: settings.n_best_size]:
                yield float(start[i]) + float(end[j]), i, j

    found = servings["span"].answer(
        tf.constant(fine_tuned.PAIRS), tf.constant(fine_tuned.TEXTS)
    )
    for number, (question, text) in enumerate(
        zip(fine_tuned.PAIRS, fine_tuned.TEXTS, strict=True)
    ):
        expected = best_of(
            question, text, settings, tokenizer, servings["span"], candidates
        )
        check_answers(found, number, expected)
        assert text[expected[1] : expected[2]] == expected[0]
    assert found["answer"][2] == b"" and found["answer"][3] != b""


def test_answers_that_may_be_absent_follow_the_threshold(servings, runs, tokenizer):
    settings = settings_of(runs["answerable_span"]).task
    model = model_of(runs["answerable_span"], "answerable_span")
    nulls = []

    def candidates(row, p_mask):
        (outputs,) = infer(model, [row], [p_mask])
        nulls[-1].append(float(outputs.impossible_logits[0]))
        for k, start in enumerate(outputs.start_positions[0].numpy()):
            score = float(outputs.start_log_probs[0, k])
            for m, end in enumerate(outputs.end_positions[0, k].numpy()):
                yield score + float(outputs.end_log_probs[0, k, m]), start, end

    serving = servings["answerable_span"]
    found = serving.answer(tf.constant(fine_tuned.PAIRS), tf.constant(fine_tuned.TEXTS))
    given = []
    for number, (question, text) in enumerate(
        zip(fine_tuned.PAIRS, fine_tuned.TEXTS, strict=True)
    ):
        nulls.append([])
        answer, start, end, probability = best_of(
            question, text, settings, tokenizer, serving, candidates
        )
        odds = min(nulls[-1])
        assert abs(float(found["null_odds"][number]) - odds) < 1e-5
        given.append(odds <= 0.6)
        expected = (answer, start, end) if given[-1] else ("", -1, -1)
        check_answers(found, number, (*expected, probability))
    assert set(given) == {True, False}
    assert float(found["null_odds_threshold"]) == np.float32(0.6)


def test_answers_do_not_depend_on_what_else_is_asked(servings):
    together = servings["span"].answer(
        tf.constant(fine_tuned.PAIRS), tf.constant(fine_tuned.TEXTS)
    )
    for number in range(4):
        alone = servings["span"].answer(
            tf.constant(fine_tuned.PAIRS[number : number + 1]),
            tf.constant(fine_tuned.TEXTS[number : number + 1]),
        )
        assert alone["answer"][0] == together["answer"][number]
        np.testing.assert_allclose(
            alone["probability"][0], together["probability"][number], atol=1e-5
        )


def test_equal_texts_share_their_probability_once():
    """The probability is a share among different texts, as the original has it."""
    scores = tf.constant([[2.0, 2.0, 1.0, -np.inf]])
    texts = tf.constant([["the", "the", "lake", ""]])
    found = span_search._probabilities(scores, texts, scores > -np.inf, 6)
    np.testing.assert_allclose(found, [1 / (1 + np.exp(-1.0))], atol=1e-6)
    found = span_search._probabilities(scores, texts, scores > -np.inf, 1)
    np.testing.assert_allclose(found, [1.0])


def test_calls_without_texts_are_answered_with_nothing(servings):
    none = tf.zeros([0], tf.string)
    assert servings["classification"].classify(none, none)["probability"].shape == [
        0,
        3,
    ]
    assert servings["token_classification"].tag(none)["word"].shape == [0]
    assert servings["span"].answer(none, none)["answer"].shape == [0]


def test_a_text_of_50000_words_is_answered_to_its_end(runs, tmp_path):
    long = " ".join(["lake"] * 49_999 + ["river"])
    tagger = load.load_serving(str(runs["token_classification"]))[0]
    found = tagger.tag(tf.constant([long, "short"]))
    assert found["word"].shape == [50_001]
    assert long[found["start"][49_999] :] == "river"
    run = shutil.copytree(runs["span"], tmp_path / "run")
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(
        text.replace('"doc_stride": 5', '"doc_stride": 16')
    )
    serving = load.load_serving(str(run))[0]
    found = serving.answer(tf.constant(["Where?"]), tf.constant([long]))
    start, end = int(found["start"][0]), int(found["end"][0])
    assert long[start:end] == found["answer"][0].numpy().decode() != ""


@pytest.mark.parametrize("kind", fine_tuned.KINDS)
def test_rows_of_a_fixed_length_have_the_same_answers(runs, servings, kind):
    fixed, _ = load.load_serving(str(runs[kind]), fixed_length=24)
    ((name, signature),) = fixed.signatures.items()
    plain = servings[kind].signatures[name]
    asked = {"text": ["A train", ""], "options": [["a lake", "x"], ["a", "b"]]}
    inputs = {
        input_name: tf.constant(asked.get(input_name, ["A lake", "where"]))
        for input_name in signature.function_type.parameters
    }
    # The model gets rows of the one length, and knows so when it is traced.
    shapes = []
    infer = fixed._infer_rows
    fixed._infer_rows = lambda features: (
        shapes.append(features["input_ids"].shape[-1]) or infer(features)
    )
    found = signature(**inputs)
    assert set(shapes) == {24}
    for key, value in plain(**inputs).items():
        value, other = value.numpy(), found[key].numpy()
        if value.dtype.kind == "f":
            np.testing.assert_allclose(other, value, atol=1e-5, err_msg=key)
        else:
            np.testing.assert_array_equal(other, value, err_msg=key)
