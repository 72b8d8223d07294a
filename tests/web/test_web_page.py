"""The page in a real browser: Debian's chromium, or another that is on the PATH."""

import re
import shutil

import pytest
from playwright import sync_api

from albert_tf.inference import saved_model_dir
from albert_tf.web import model
from tests.support import small_serving, web_server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium on the PATH: apt-get install chromium"
    ),
]
# It starts as root too, and asks nothing of its maker.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE = {"width": 360, "height": 640}
HTML = "<b>lake</b>"


@pytest.fixture(scope="module")
def browser():
    # A model's first answer takes as long as its tracing.
    sync_api.expect.set_options(timeout=1000 * web_server.TIMEOUT)
    with sync_api.sync_playwright() as playwright:
        # Its profile is a fresh folder, which goes away with it.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=60_000
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.said = []
    page.asked = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("dialog", lambda dialog: page.said.append(dialog.message))
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    context.close()


def served(module):
    """Its functions, each asked once before the server opens, as the binary does."""
    functions = model.functions(module)
    model.warm_up(functions)
    return functions


@pytest.fixture(scope="module")
def pretrained():
    functions = served(small_serving.pretrained())
    with web_server.running(lambda: functions) as server:
        yield server


def bars(page, endpoint):
    """Names and percentages of the bars, as shown."""
    rows = page.locator(f"#{endpoint}-answer li")
    return [
        (row.locator("span").first.inner_text(), row.locator(".number").inner_text())
        for row in rows.all()
    ]


def answer_to(page, endpoint):
    """The answer that the page shows, once it shows one; no error."""
    section = page.locator("section", has=page.locator(f"#{endpoint}-answer"))
    section.get_by_role("button", name="Ask").click()
    answer = page.locator(f"#{endpoint}-answer")
    sync_api.expect(answer).not_to_be_empty()
    assert answer.locator(".error").all_inner_texts() == []
    return answer


def test_a_person_sees_candidates_for_each_mask(pretrained, page):
    text = f"{HTML} is [MASK] the [MASK]."
    page.goto(pretrained.url)
    page.get_by_label("A sentence").fill(text)
    page.get_by_label("Candidates for each [MASK]").fill("3")
    answer = answer_to(page, "fill-mask")
    assert answer.locator("h3").all_inner_texts() == ["[MASK] 1", "[MASK] 2"]
    (expected,) = pretrained.ask("fill-mask", texts=[text], top_k=3).answers
    words = [
        (
            candidate["token"].replace("▁", "") or "▁",
            f"{100 * candidate['probability']:.1f} %",
        )
        for candidates in expected["masks"]
        for candidate in candidates
    ]
    assert bars(page, "fill-mask") == words
    # Input is shown as text, and is not interpreted as HTML.
    assert HTML in answer.inner_text()
    assert answer.locator("b").count() == 0
    for fill, (_, percent) in zip(answer.locator(".fill").all(), words, strict=True):
        assert fill.evaluate("bar => bar.style.width") == percent.replace(" ", "")
    assert page.said == []
    assert {url.split("/")[2] for url in page.asked} == {pretrained.url[7:]}


def test_a_person_compares_texts(pretrained, page):
    page.goto(pretrained.url)
    page.get_by_label("Texts").fill("a river\n\na church\na river\n")
    answer = answer_to(page, "embeddings")
    texts = ["a river", "a church", "a river"]
    found = pretrained.ask("embeddings", texts=texts, pooling="mean").answers
    first, second, _ = (one["mean_output"] for one in found)
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    lengths = [sum(a * a for a in vector) ** 0.5 for vector in (first, second)]
    cosine = dot / lengths[0] / lengths[1]
    shown = [("a church", f"{cosine:.3f}"), ("a river", "1.000")]
    assert bars(page, "embeddings") == shown
    assert "12 numbers each" in answer.inner_text()


def test_it_fits_a_phone_and_names_its_fields(pretrained, page):
    page.goto(pretrained.url)
    page.get_by_label("A sentence").fill("[MASK] " + "x" * 200)
    assert answer_to(page, "fill-mask").locator("h3").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for field in page.locator("input, textarea").all():
        name = field.get_attribute("id")
        assert page.locator(f"label[for={name}]").inner_text().strip()
    page.goto(f"{pretrained.url}/docs")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.said == []


def test_errors_of_the_api_are_shown_in_words(pretrained, page):
    page.goto(pretrained.url)
    page.get_by_label("A sentence").fill(f"no mask in {HTML}")
    page.get_by_role("button", name="Ask").first.click()
    error = page.locator("#fill-mask-answer .error")
    sync_api.expect(error).to_contain_text("each text must hold [MASK]; received")
    assert error.locator("b").count() == 0
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("button", name="Ask").first.click()
    sync_api.expect(error).to_have_text(
        "the server cannot be reached; is it still running?"
    )


def test_the_page_names_its_model(page):
    description = saved_model_dir.Description(
        f"my {HTML}", "MRPC", "model.ckpt-7", "2026-11-03 09:05 UTC", {"NumPy": "2.4"}
    )
    functions = {"tag": lambda items: items}
    with web_server.running(lambda: functions, description=description) as server:
        page.goto(server.url)
        sync_api.expect(page.locator("h1")).to_have_text(f"my {HTML}")
        sync_api.expect(page.locator("#about")).to_have_text(
            "ALBERT, MRPC · model.ckpt-7 · exported 2026-11-03 09:05 UTC · NumPy 2.4"
        )
        assert page.title() == f"my {HTML} – ALBERT"
        assert server.get("/v1/model").json["model"]["task"] == "MRPC"
    assert page.said == []


def test_a_fine_tuned_model_has_the_form_of_its_task(page):
    functions = served(small_serving.of_kind("span"))
    context = "😀😀 The river runs through <i>New York</i> and on."
    with web_server.running(lambda: functions) as server:
        page.goto(server.url)
        page.get_by_label("Text").fill(context)
        page.get_by_label("Question").fill("Where does it run?")
        marked = answer_to(page, "answer").locator("mark")
        (expected,) = server.ask(
            "answer", examples=[{"question": "Where does it run?", "context": context}]
        ).answers
    assert marked.inner_text() == expected["answer"] != ""
    assert context in page.locator("#answer-answer").inner_text()
    assert page.get_by_label("A sentence").count() == 0
    assert page.said == []


@pytest.mark.parametrize(
    ("endpoint", "fields", "answer", "shown"),
    [
        (
            "classify",
            {"Text": "a"},
            {"probabilities": {"no": 0.25, HTML: 0.75}},
            [(HTML, "75.0 %"), ("no", "25.0 %")],
        ),
        ("classify", {"Text": "a"}, {"score": 2.5}, "Score: 2.5000"),
        (
            "tag",
            {"Text": "New York"},
            {
                "words": [
                    {"word": w, "start": 0, "end": 3, "label": "B", "probability": 0.5}
                    for w in ("New", "York")
                ]
            },
            "New\nB 50.0 %\nYork\nB 50.0 %",
        ),
        (
            "choose",
            {"Text": "t", "Question": "q", "Options": "one\n\ntwo"},
            {"probabilities": [0.125, 0.875], "choice": 1, "answer": "two"},
            [("one", "12.5 %"), ("two", "87.5 %")],
        ),
        (
            "answer",
            {"Text": "t", "Question": "q"},
            {"answer": "", "start": -1, "end": -1, "probability": 0.5},
            "The text does not answer this.",
        ),
    ],
)
def test_answers_of_each_task_are_shown(page, endpoint, fields, answer, shown):
    asked = {
        "classify": lambda item: {"text": item[0]},
        "tag": lambda item: {"text": item[0]},
        "answer": lambda item: {"question": item[0], "context": item[1]},
        "choose": lambda item: {
            "context": item[0],
            "question": item[1],
            "options": list(item[2:]),
        },
    }[endpoint]
    functions = {endpoint: lambda items: [asked(item) | answer for item in items]}
    with web_server.running(lambda: functions) as server:
        page.goto(server.url)
        for label, value in fields.items():
            page.get_by_label(re.compile(rf"^{label}\b")).fill(value)
        output = answer_to(page, endpoint)
    if isinstance(shown, str):
        assert output.inner_text().strip() == shown
    else:
        assert bars(page, endpoint) == shown
    assert page.said == []
