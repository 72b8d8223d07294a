"""The Python of the use-case pages does what the pages say."""

import json
import re

import numpy as np

from albert_tf.web import schemas
from tests.repository import project_files


def test_nearest_texts_are_those_of_the_smallest_angle(tmp_path, monkeypatch, capsys):
    page = "docs/use_cases/embeddings_and_search.md"
    text = (project_files.ROOT / page).read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(tmp_path)
    texts = np.array([[0, 9], [1, 1], [2, 0.1], [-1, 0]], np.float32)
    np.savez("texts.npz", embedding=texts, num_tokens=np.ones(4, np.int32))
    np.savez("queries.npz", embedding=texts[2:3] * 3, num_tokens=np.ones(1, np.int32))
    (tmp_path / "texts.txt").write_text("up\n\nbetween\nright\nleft\n")
    (tmp_path / "queries.txt").write_text("along the axis\n")
    exec(compile(code, page, "exec"), {})
    query, *found = capsys.readouterr().out.splitlines()
    assert query == "along the axis"
    assert [line.split()[1] for line in found] == ["right", "between", "up", "left"]


def test_requests_of_the_page_on_serving_are_those_of_their_endpoints():
    text = (project_files.ROOT / "docs/use_cases/serve.md").read_text()
    sent = re.findall(r"curl localhost:8000/v1/([\w-]+) .*\\\n +-d '(.*)'", text)
    kinds = {endpoint.name: endpoint.request for endpoint in schemas.ENDPOINTS}
    assert {name for name, _ in sent} == {"classify", "embeddings", "fill-mask"}
    for name, body in sent:
        assert kinds[name].model_validate(json.loads(body)).items()
