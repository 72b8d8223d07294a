"""Minimal pairs are read as published, and what is wrong in a file is named."""

import json

import pytest

from albert_tf import probe
from albert_tf.probing import published, suites
from tests.repository import project_files
from tests.support import binaries, real_archives


def blimp_line(good, bad, uid="gaps", term="islands"):
    row = {"sentence_good": good, "sentence_bad": bad, "UID": uid}
    return json.dumps({**row, "linguistics_term": term, "pairID": "0"})


@pytest.fixture
def blimp(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b.jsonl").write_text(
        f"{blimp_line('A b.', 'B a.')}\n{blimp_line('C d.', 'D c.')}\n"
    )
    other = blimp_line("We saw.", "We it saw.", "verbs", "s-selection")
    (tmp_path / "data" / "a.jsonl").write_text(f"{other}\n")
    return tmp_path


def test_blimp_is_read_with_paradigm_and_phenomenon(blimp):
    assert suites.find(str(blimp)) == "blimp"
    assert suites.read(str(blimp)) == [
        # The paper counts this term as of argument structure.
        ("verbs", "argument_structure", "We saw.", "We it saw."),
        ("gaps", "islands", "A b.", "B a."),
        ("gaps", "islands", "C d.", "D c."),
    ]


def test_the_first_pairs_of_each_paradigm_are_taken(blimp):
    found = suites.read(str(blimp), pairs_per_paradigm=1)
    assert [pair.good for pair in found] == ["We saw.", "A b."]


@pytest.mark.parametrize("folder", ["results", "raw_results/summary"])
def test_results_that_lack_a_paradigm_are_an_error_before_anything_is_scored(
    blimp, tmp_path, capsys, folder
):
    (blimp / folder).mkdir(parents=True)
    row = dict.fromkeys(("ngram", "lstm", "txl", "gpt2"), "0.5")
    (blimp / folder / "models_summary.jsonl").write_text(
        json.dumps({"UID": "gaps", **row}) + "\n"
    )
    # Nothing else of the run is there: no weights are read.
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    arguments = (f"--model={tmp_path / 'run'}", "--suite=blimp", f"--data_dir={blimp}")
    said = binaries.error_of(
        capsys, probe, *arguments, f"--output_dir={tmp_path / 'out'}"
    )
    assert (
        "published results of 5-gram must have each paradigm; they lack verbs" in said
    )


def test_zorro_has_the_ungrammatical_sentence_first(tmp_path):
    folder = tmp_path / "sentences" / "babyberta"
    folder.mkdir(parents=True)
    (folder / "filler-gap-wh_object.txt").write_text(
        "a bad .\na good .\nb bad .\nb .\n"
    )
    assert suites.find(str(tmp_path)) == "zorro"
    assert suites.read(str(tmp_path)) == [
        ("filler-gap-wh_object", "filler-gap", "a good .", "a bad ."),
        ("filler-gap-wh_object", "filler-gap", "b .", "b bad ."),
    ]
    (folder / "odd.txt").write_text("a\nb\nc\n")
    with pytest.raises(ValueError, match=r"odd.txt:3: .* even number .* received 3"):
        suites.read(str(tmp_path))


def test_own_pairs_may_have_a_group(tmp_path):
    path = tmp_path / "mine.jsonl"
    pairs = [
        {"sentence_good": "I am.", "sentence_bad": "I is."},
        {"sentence_good": "He is.", "sentence_bad": "He am.", "group": "third"},
    ]
    # With the byte order mark that some editors write.
    path.write_text("\n\n".join(map(json.dumps, pairs)), encoding="utf-8-sig")
    assert suites.find(str(path)) == "file"
    assert suites.read(str(path)) == [
        ("mine", "mine", "I am.", "I is."),
        ("third", "third", "He is.", "He am."),
    ]
    assert published.read(str(path)) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"a.jsonl:2 must be JSON"),
        ("[1]", r"a.jsonl:2 must hold a JSON object; received \[1\]"),
        ('{"sentence_good": "A."}', r"a.jsonl:2: sentence_bad .* received None"),
        (blimp_line(" ", "B."), r"a.jsonl:2: sentence_good .* received ' '"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(f"{blimp_line('A.', 'B.')}\n{line}\n")
    with pytest.raises(ValueError, match=message):
        suites.read(str(path))


def test_what_holds_no_suite_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ValueError, match="must be the directory of BLiMP or Zorro"):
            suites.find(str(path))
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ValueError, match="must hold a pair"):
        suites.read(str(tmp_path / "empty.jsonl"))


@pytest.fixture(scope="module")
def unpacked(shared_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suites")
    for name in ("blimp", "zorro"):
        path = shared_data / f"{name}.tar.xz"
        if not path.is_file():
            pytest.skip(f"no ../shared/data/{name}.tar.xz: the published suites")
        real_archives.unpack(path, folder)
    return folder


@pytest.mark.slow
def test_the_published_suites_have_their_sizes_and_results(unpacked):
    blimp = suites.read(str(unpacked / "blimp"))
    phenomenon_of = {pair.paradigm: pair.phenomenon for pair in blimp}
    assert (len(blimp), len(phenomenon_of)) == (67_000, 67)
    assert len(set(phenomenon_of.values())) == 12
    found = {
        one.name: one.means(phenomenon_of)
        for one in published.read(str(unpacked / "blimp"))
    }
    # The means that the file itself has in its rows "overall".
    overall = {"5-gram": 0.61240, "LSTM": 0.69812, "Transformer-XL": 0.69625}
    overall |= {"GPT-2": 0.83024, "people": 0.88555}
    for name, share in overall.items():
        assert found[name][0] == pytest.approx(share, abs=1e-4), name
    gpt2 = found["GPT-2"][1]
    assert gpt2["argument_structure"] == pytest.approx(0.8177777778)
    assert gpt2["npi_licensing"] == pytest.approx(0.7682857143)

    zorro = suites.read(str(unpacked / "zorro"))
    phenomenon_of = {pair.paradigm: pair.phenomenon for pair in zorro}
    assert (len(zorro), len(phenomenon_of)) == (46_000, 23)
    assert len(set(phenomenon_of.values())) == 13


@pytest.mark.slow
def test_published_cross_entropies_give_the_published_models_accuracies(unpacked):
    """Counted with awk: sentences of lower cross-entropy, and ties as one half."""
    (roberta,) = published.read(str(unpacked / "zorro"))
    assert roberta.name == "RoBERTa-base" and len(roberta.paradigms) == 23
    expected = {
        "agreement_determiner_noun-across_1_adjective": 0.9265,
        "agreement_determiner_noun-between_neighbors": 0.8490 + 1 / 4000,
        "agreement_subject_verb-across_prepositional_phrase": 0.7340,
        "agreement_subject_verb-in_question_with_aux": 0.7980 + 14 / 4000,
        "argument_structure-dropped_argument": 0.5290 + 11 / 4000,
        "irregular-verb": 0.9990,
        "island-effects-adjunct_island": 0.7080,
        "npi_licensing-matrix_question": 0.8505 + 3 / 4000,
    }
    for name, share in expected.items():
        assert roberta.paradigms[name] == pytest.approx(share, abs=1e-9), name


@pytest.mark.slow
def test_the_shares_of_questions_are_those_of_the_log(unpacked):
    path = project_files.ROOT / "docs" / "experiments" / "zorro_texts.json"
    found = json.loads(path.read_text())["paradigms"]
    ending = {name: [] for name in found}
    for pair in suites.read(str(unpacked / "zorro")):
        ending[pair.paradigm] += [pair.good.endswith("?"), pair.bad.endswith("?")]
    for name, paradigm in found.items():
        share = sum(ending[name]) / len(ending[name])
        assert paradigm["questions"] == pytest.approx(share, abs=6e-4), name
