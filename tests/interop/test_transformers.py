"""transformers and this project compute the same from each other's folders."""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import torch
import transformers

TOLERANCE = 1e-5  # largest absolute difference, float32
SCORE_TOLERANCE = 1e-4  # of the score of a sentence
ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = (
    *(
        f"sharing-{name}"
        for name in (
            "all",
            "groups",
            "uneven",
            "inner",
            "none",
            "attention",
            "feed_forward",
            "bert",
            "one_layer",
        )
    ),
    "gelu_exact",
    "relu",
    "epsilon",
    "only-model",
    "only-masked_lm",
    "head-classification",
    "head-regression",
    "head-token_classification",
    "head-span",
    "head-multiple_choice",
)
HALF = "half"  # sharing-groups in bfloat16


def _our_side(*arguments) -> None:
    """Runs tests.interop.our_side in the environment of the product."""
    done = subprocess.run(
        [os.environ["ALBERT_TF_PYTHON"], "-m", "tests.interop.our_side"]
        + [str(argument) for argument in arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("cases")
    _our_side("write", path)
    return path


def _load(path: pathlib.Path):
    """The model, of the class in its configuration; no weight may be missing."""
    described = json.loads((path / "config.json").read_text())
    model_class = getattr(transformers, described["architectures"][0])
    model, info = model_class.from_pretrained(path, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def _outputs_of(model, arrays) -> dict[str, np.ndarray]:
    """Outputs of transformers by native names."""
    inputs = {
        "input_ids": torch.tensor(arrays["input_ids"]).long(),
        "attention_mask": torch.tensor(arrays["input_mask"]).long(),
        "token_type_ids": torch.tensor(arrays["segment_ids"]).long(),
    }
    name = type(model).__name__
    if name == "AlbertForMultipleChoice":
        inputs = {key: value[None] for key, value in inputs.items()}
    with torch.no_grad():
        found = model(**inputs, output_hidden_states=True)
    outputs = {}
    positions = torch.tensor(arrays["masked_lm_positions"]).long()
    rows = torch.arange(3)[:, None]
    if name == "AlbertModel":
        outputs["sequence_output"] = found.last_hidden_state
        outputs["pooled_output"] = found.pooler_output
    elif name in ("AlbertForPreTraining", "AlbertForMaskedLM"):
        outputs["sequence_output"] = found.hidden_states[-1]
        logits = found.logits if "logits" in found else found.prediction_logits
        outputs["mlm_logits"] = logits[rows, positions]
    if name == "AlbertForPreTraining":
        outputs["pair_logits"] = found.sop_logits
        with torch.no_grad():
            outputs["pooled_output"] = model.albert(**inputs).pooler_output
    if name == "AlbertForQuestionAnswering":
        outputs["start_logits"] = found.start_logits
        outputs["end_logits"] = found.end_logits
    elif not outputs:
        is_number = getattr(model.config, "problem_type", None) == "regression"
        key = "predictions" if is_number else "logits"
        outputs[key] = found.logits[:, 0] if is_number else found.logits
    return {key: value.numpy() for key, value in outputs.items()}


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_equal(folder, name):
    arrays = dict(np.load(folder / name / "outputs.npz"))
    found = _outputs_of(_load(folder / name / "hf"), arrays)
    inputs = {"input_ids", "input_mask", "segment_ids", "masked_lm_positions"}
    assert set(found) == set(arrays) - inputs
    for key, value in found.items():
        assert value.shape == arrays[key].shape, key
        assert np.max(np.abs(value - arrays[key])) < TOLERANCE, key


@pytest.fixture(scope="module")
def saved(folder) -> dict[str, transformers.PreTrainedModel]:
    """What transformers saved of each case, and this project then read, in one process.

    With changed weights, so that no file of this project is compared with itself.
    """
    models = {}
    for name in CASES:
        models[name] = _load(folder / name / "hf")
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for key, parameter in models[name].named_parameters():
                if "embedding_hidden_mapping_in" not in key or name != "sharing-bert":
                    noise = torch.randn(parameter.shape, generator=generator)
                    parameter.add_(0.1 * noise)
        models[name].save_pretrained(folder / name / "saved")
    half = _load(folder / "sharing-groups" / "hf").to(torch.bfloat16)
    half.save_pretrained(folder / HALF / "saved")
    models[HALF] = half.float()
    _our_side("read", folder)
    return models


def _assert_read_as_saved(saved, folder, name, inputs_of) -> None:
    arrays = dict(np.load(folder / inputs_of / "outputs.npz"))
    found = _outputs_of(saved[name], arrays)
    ours = np.load(folder / name / "read.npz")
    assert set(ours) == set(found)
    for key, value in found.items():
        assert np.max(np.abs(value - ours[key])) < TOLERANCE, key


@pytest.mark.parametrize("name", CASES)
def test_what_transformers_saves_is_read(saved, folder, name):
    _assert_read_as_saved(saved, folder, name, name)


def test_half_precision_is_read(saved, folder):
    """bfloat16 weights arrive as the float32 numbers that they stand for."""
    _assert_read_as_saved(saved, folder, HALF, "sharing-groups")


def test_the_tokenizer_gives_the_same_ids(folder):
    """Of the original's 510 strings; those that differ are listed with the reason."""
    tokenizer = transformers.AlbertTokenizer.from_pretrained(
        folder / "tokenizer" / "hf"
    )
    path = ROOT / "tests" / "testdata" / "tokenization" / "tokenization_spm_small.json"
    rows = json.loads(path.read_text())["rows"]
    differing = [
        row["text"]
        for row in rows
        if tokenizer.encode(row["text"], add_special_tokens=False) != row["ids"]
    ]
    found = {text: _reason(text) for text in differing}
    assert set(found.values()) == set(REASONS), found
    assert len(found) == 14


@pytest.mark.parametrize("metric", ["pll", "within_word"])
def test_scores_of_sentences_are_those_of_its_logits(folder, metric):
    """Pseudo-log-likelihoods, computed row by row from AlbertForMaskedLM's logits."""
    arrays = np.load(folder / "tokenizer" / "scores.npz")
    model = transformers.AlbertForMaskedLM.from_pretrained(folder / "tokenizer" / "hf")
    model.eval()
    cls_id, sep_id, mask_id = arrays["frame"].tolist()
    assert len(arrays["ids"]) == 4
    num_continuing = 0
    for number, length in enumerate(arrays["lengths"].tolist()):
        ids = arrays["ids"][number, :length].tolist()
        starts = arrays["is_word_start"][number, :length].tolist()
        total = 0.0
        for place, target in enumerate(ids):
            masked = list(ids)
            masked[place] = mask_id
            later = place + 1
            while metric == "within_word" and later < length and not starts[later]:
                masked[later] = mask_id
                later += 1
                num_continuing += 1
            row = torch.tensor([[cls_id, *masked, sep_id]])
            with torch.no_grad():
                logits = model(row).logits[0, place + 1].double()
            total += float(torch.log_softmax(logits, -1)[target])
        assert abs(total - arrays[metric][number]) < SCORE_TOLERANCE
    assert (num_continuing > 0) == (metric == "within_word")


REASONS = (
    # Both quotes become " in its normalizer.
    "a quote of two characters",
    # It knows special pieces in a text; here text cannot make a special id.
    "a special piece",
    # "1990," is cut again here, as in the original.
    "a comma after a digit",
    # "000" as "0 00" or as "00 0": both score the same.
    "a tie",
)


def _reason(text: str) -> str:
    """Why the ids of a text differ."""
    quote, special, comma, tie = REASONS
    if "``" in text or "''" in text:
        return quote
    if "[CLS]" in text or "<pad>" in text:
        return special
    if re.search(r"\d,", text):
        return comma
    return tie if re.search(r"\D000$", text) else "unknown"
