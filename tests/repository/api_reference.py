"""Renders docs/reference/api.md from the signatures and docstrings of the Python API.

The files are parsed and not imported: importing TensorFlow takes seconds.
"""

import ast
import pathlib
import re
import textwrap

import albert_tf
from albert_tf.core import config
from albert_tf.data import schema
from albert_tf.probing import settings

_TITLE = """\
# The Python API

Every name of `albert_tf`, with its arguments; [Python](../python.md) shows them in use.
What is not listed here is private and may change. Letters in shapes: B batch,
S sequence, T texts, H hidden.
"""
_OTHERS = """\
## Other classes

`load_tokenizer` returns a `Tokenizer` and `Model.probe` a `Probed`. An `Objective` is
what `Trainer` takes: any object with these methods and attributes.
"""
# Classes that are no names of the package, with their modules.
_CLASSES = {
    "Tokenizer": "albert_tf.tokenization.tokenizer",
    "Probed": "albert_tf.probing.probe",
    "Objective": "albert_tf.training.objectives",
}
# Classes that the user does not make.
_MADE = {"Model", "Objective", "Probed", "Tokenizer"}
# Of these the other methods are for the project's own use.
_METHODS = {
    "EncoderLayer": ("call",),
    "Evaluation": (),
    "Objective": ("weights", "batch_sums", "mean", "train_metrics"),
    "Tokenizer": ("encode", "encode_batch", "encode_with_masks", "pieces", "decode"),
    "Trainer": ("restore", "train"),
}
# The values of defaults that are names.
_DEFAULTS = {
    "config_lib.WEIGHTS[0]": repr(config.WEIGHTS[0]),
    "schema.HELDOUT": repr(schema.HELDOUT),
    "settings.PLL": repr(settings.PLL),
}
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?:  .*\n?|\n)+)", re.M)
_ITEM = re.compile(r"^([*\w]+(?:[.,] ?\w+)*): ", re.M)
_LINE_LENGTH = 80

Definition = ast.ClassDef | ast.FunctionDef


def render(root: pathlib.Path) -> str:
    """The text of the page.

    Args:
      root: of the repository.
    """
    parts = [_TITLE]
    for name in sorted(albert_tf._MODULES, key=str.swapcase):
        parts.append(f"## albert_tf.{name}\n")
        parts += _describe(root, albert_tf._MODULES[name], name, f"albert_tf.{name}")
    parts += ["## albert_tf.\\_\\_version\\_\\_\n", "The version, a string.\n", _OTHERS]
    for name, module in _CLASSES.items():
        parts += [f"### {name}\n", *_describe(root, module, name, name)]
    return "\n".join(parts)


def _describe(root: pathlib.Path, module: str, name: str, shown: str) -> list[str]:
    """Signature and docstring; of a class, those of its methods too."""
    tree = ast.parse((root / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    kinds = ast.ClassDef, ast.FunctionDef
    (found,) = (one for one in tree.body if isinstance(one, kinds) and one.name == name)
    own = {
        alias.asname or alias.name
        for one in tree.body
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("albert")
        for alias in one.names
    }
    if isinstance(found, ast.FunctionDef):
        return [signature(found, shown, own), *docstring(found)]
    methods = {one.name: one for one in found.body if isinstance(one, ast.FunctionDef)}
    parts = docstring(found)
    if name not in _MADE:
        first = methods.get("__init__") or _constructor(found)
        parts = [signature(first, shown, own), *parts, *docstring(first)]
    public = [method for method in methods if not method.startswith("_")]
    level = "###" if shown != name else "####"
    for method in _METHODS.get(name, public):
        parts.append(f"{level} {name}.{method}\n")
        parts.append(signature(methods[method], f"{name}.{method}", own))
        parts += docstring(methods[method])
    return parts


def _constructor(found: ast.ClassDef) -> ast.FunctionDef:
    """The constructor of a dataclass, from its fields."""
    fields = [one for one in found.body if isinstance(one, ast.AnnAssign)]
    names = ", ".join(map(ast.unparse, fields))
    (made,) = ast.parse(f"def __init__({names}): pass").body
    assert isinstance(made, ast.FunctionDef)
    return made


def signature(found: ast.FunctionDef, name: str, own: set[str]) -> str:
    """A call with types and defaults, a line for each argument where it is long.

    Args:
      found: the function.
      name: to show.
      own: modules of this project, whose names say nothing to a reader.
    """
    given = found.args
    positional = [*given.posonlyargs, *given.args]
    blanks = [None] * (len(positional) - len(given.defaults))
    pairs = [*zip(positional, [*blanks, *given.defaults], strict=True)]
    texts = [_argument(*pair, own) for pair in pairs if pair[0].arg != "self"]
    texts += [f"*{given.vararg.arg}"] if given.vararg else []
    only = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    texts += [_argument(*pair, own) for pair in only]
    texts += [f"**{given.kwarg.arg}"] if given.kwarg else []
    result = _type(found.returns, own)
    end = f" -> {result}" if result not in ("", "None") else ""
    line = f"{name}({', '.join(texts)}){end}"
    if len(line) > _LINE_LENGTH:
        line = f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){end}"
    return f"```python\n{line}\n```\n"


def _argument(found: ast.arg, default: ast.expr | None, own: set[str]) -> str:
    kind = _type(found.annotation, own)
    text = f"{found.arg}: {kind}" if kind else found.arg
    if default is None:
        return text
    value = ast.unparse(default)
    value = _DEFAULTS.get(value, value).replace("'", '"')
    return f"{text} = {value}" if kind else f"{text}={value}"


def _type(annotation: ast.expr | None, own: set[str]) -> str:
    """A type without the modules of this project; empty where anything may be given."""
    text = ast.unparse(annotation).strip("'\"") if annotation else ""
    for module in own:
        text = re.sub(rf"\b{module}\.(?=[A-Z])", "", text)
    return "" if text == "Any" else text


def docstring(found: Definition) -> list[str]:
    """The paragraphs of a docstring; what its sections describe, as lists."""
    # Tags are HTML to Markdown, but not within code.
    spans = (ast.get_docstring(found) or "").split("`")
    spans[::2] = [span.replace("<", "&lt;") for span in spans[::2]]
    text = "`".join(spans)
    parts, end = [], 0
    for section in _SECTION.finditer(text):
        parts += [text[end : section.start()], f"{section[1]}:", _body(section)]
        end = section.end()
    return [f"{part.strip()}\n" for part in [*parts, text[end:]] if part.strip()]


def _body(section: re.Match) -> str:
    body = textwrap.dedent(section[2])
    return body if section[1] == "Returns" else _ITEM.sub(r"- `\1`: ", body)
