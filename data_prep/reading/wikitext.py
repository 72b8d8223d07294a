"""The running text of wikitext, and the process in which it is found.

As a program it answers the pages that `wikitext_process` sends. It imports nothing of
this project, so that it starts quickly.
"""

import os
import re
import resource
import signal
import sys
from typing import Any, BinaryIO

import mwparserfromhell
from mwparserfromhell import nodes

# Of the process. A page of 2 MiB, the most that MediaWiki stores by default, takes a
# fifth of it.
MAX_MEMORY = 2 << 30
READY = b"R"
# How an answer begins.
TEXT, UNPARSABLE, TOO_MUCH = b"T", b"U", b"M"
SIZE_BYTES = 8

# Elements without running text.
_DROPPED_TAGS = frozenset(
    "categorytree gallery graph imagemap inputbox math ref references score section "
    "source style syntaxhighlight table templatedata templatestyles timeline".split()
)
_LINE_BREAKING_TAGS = frozenset(("br", "hr", "p", "div", "blockquote"))
# Namespaces whose links are not text: files and categories, by their names in the
# largest Wikipedias. The English names are valid in all.
_DROPPED_NAMESPACES = frozenset(
    "file image media category datei bild kategorie fichier catégorie archivo imagen "
    "categoría immagine categoria ficheiro imagem bestand afbeelding categorie plik "
    "grafika fil kategori файл изображение категория зображення категорія "
    "ファイル 画像 カテゴリ 文件 檔案 图像 圖像 分类 分類 파일 그림 분류 ملف صورة "
    "تصنيف پرونده رده קובץ קטגוריה चित्र श्रेणी tập_tin hình thể_loại soubor dosya "
    "fitxer berkas".split()
)
# Links to files are also recognized by suffix, for other names of the namespace.
_MEDIA_SUFFIXES = tuple(
    ".djvu .flac .gif .jpeg .jpg .mid .mp3 .oga .ogg .ogv .opus .pdf .png .stl .svg "
    ".tif .tiff .wav .webm .webp .xcf".split()
)
# Bold and italics, switches such as __NOTOC__, and parentheses of a removed template.
_LEFTOVERS = re.compile(r"'{2,5}|__[A-Z]{3,}__|(?<= )\([\s,;]*\)")


def to_plain_text(wikitext: str) -> str:
    """Extracts the running text of wikitext.

    Templates, tables, references, files, categories, formulas, comments, and the
    headings of sections that are then empty are dropped.
    """
    # Style tags are removed below: unbalanced ones confuse the parser.
    code = mwparserfromhell.parse(wikitext, skip_style_tags=True)
    parts: list[str] = []
    headings: list[nodes.Heading] = []  # written before the next text
    for node in code.nodes:
        if isinstance(node, nodes.Heading):
            headings = [h for h in headings if h.level < node.level] + [node]
            continue
        part = _render_node(node)
        if headings and part.strip():
            parts += [f"\n{_render(heading.title)}\n" for heading in headings]
            headings = []
        parts.append(part)
    return _LEFTOVERS.sub("", "".join(parts))


def _render(code: Any) -> str:
    return "".join(map(_render_node, code.nodes)) if code is not None else ""


def _render_node(node: nodes.Node) -> str:
    if isinstance(node, nodes.Text):
        return node.value
    if isinstance(node, nodes.Wikilink):
        return _render_link(node)
    if isinstance(node, nodes.ExternalLink):
        return _render(node.title if node.brackets else node.url)
    if isinstance(node, nodes.HTMLEntity):
        return node.normalize().encode("utf-8", "ignore").decode()  # &#xD800; and such
    if isinstance(node, nodes.Heading):
        return f"\n{_render(node.title)}\n"
    if isinstance(node, nodes.Tag):
        tag = str(node.tag).strip().lower()
        if tag in _DROPPED_TAGS:
            return ""
        around = "\n" if tag in _LINE_BREAKING_TAGS else ""
        return f"{around}{_render(node.contents)}{around}"
    return ""  # templates, template arguments and comments


def _render_link(link: nodes.Wikilink) -> str:
    title = str(link.title).strip()
    namespace, colon, name = title.lower().partition(":")
    is_dropped = namespace.strip().replace(" ", "_") in _DROPPED_NAMESPACES
    if colon and (is_dropped or namespace and name.endswith(_MEDIA_SUFFIXES)):
        return ""
    if link.text is not None:
        return _render(link.text)
    return _render(link.title).strip().removeprefix(":")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers pages until there are no more.

    Args:
      requests: for each page the seconds of a processor that it may take, and the size
        of its UTF-8, as integers of `SIZE_BYTES`, and its UTF-8.
      answers: `READY`; and for each page `TEXT` and the size and the UTF-8 of its text,
        `UNPARSABLE` if the library fails, or `TOO_MUCH` if the depth or the memory of a
        process is not enough. A page that takes longer ends the process.
    """
    answers.write(READY)
    answers.flush()
    while header := requests.read(2 * SIZE_BYTES):
        seconds, size = (
            int.from_bytes(part) for part in (header[:SIZE_BYTES], header[SIZE_BYTES:])
        )
        page = requests.read(size).decode()
        used = resource.getrusage(resource.RUSAGE_SELF)
        # In whole seconds; at its end comes a signal that ends the process.
        limit = int(used.ru_utime + used.ru_stime) + 1 + seconds
        _limit(resource.RLIMIT_CPU, limit)
        try:
            text = to_plain_text(page).encode()
            answers.write(TEXT + len(text).to_bytes(SIZE_BYTES) + text)
        except mwparserfromhell.parser.ParserError:
            answers.write(UNPARSABLE)
        except (MemoryError, RecursionError):
            answers.write(TOO_MUCH)
        answers.flush()


def _limit(kind: int, most: int) -> None:
    """Lowers a limit of this process, whose own may be lower."""
    hard = resource.getrlimit(kind)[1]
    lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (lower, hard))


def main() -> None:
    """Serves standard input and output, with bounds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when its input does
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, MAX_MEMORY)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
