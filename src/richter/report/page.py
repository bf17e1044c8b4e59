"""Building blocks of one self-contained HTML page: no script, no request, every text escaped.

A block is an `Html`, made only by the functions here from plain text.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Sequence
from typing import NewType

from richter import draw
from richter.draw.style import DARK, LIGHT, Theme
from richter.figure.data import Figure

Html = NewType("Html", str)
NARROW = 760  # pixels: below this width panels stand below each other
LARGE = 800_000  # bytes of an SVG, above which it is drawn as pixels
NARROW_PANEL = (3.55, 2.5)  # inches; about the width of a phone


def text(words: str, kind: str = "") -> Html:
    """A paragraph; `kind` is "lead", "verdict" or "note".

    >>> text("a < b")
    '<p>a &lt; b</p>'
    """
    mark = f' class="{_safe(kind)}"' if kind else ""
    return Html(f"<p{mark}>{_safe(words)}</p>")


def heading(words: str, level: int = 3) -> Html:
    """A heading inside a section."""
    return Html(f"<h{level}>{_safe(words)}</h{level}>")


def code(lines: str, label: str) -> Html:
    """Lines to copy; `label` says what they are to someone who does not see them."""
    return Html(f'<pre aria-label="{_safe(label)}"><code>{_safe(lines.strip())}</code></pre>')


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A table with a caption; the first cell of a row is its header."""
    rows = list(rows)
    words = [not any(any(c.isdigit() for c in row[i].split(" ")[0]) for row in rows) for i in range(len(head))]
    kind = [' class="words"' if word else "" for word in words]
    top = "".join(f'<th scope="col"{k}>{_safe(cell)}</th>' for cell, k in zip(head, kind, strict=True))
    cells = lambda row: "".join(f"<td{k}>{_safe(cell)}</td>" for cell, k in zip(row[1:], kind[1:], strict=True))
    body = "".join(f'<tr><th scope="row">{_safe(row[0])}</th>{cells(row)}</tr>' for row in rows)
    return Html(f"<table><caption>{_safe(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")


def findings(caption: str, head: Sequence[str], rows: Iterable[tuple[str, Sequence[str | tuple[str, str]]]]) -> Html:
    """A table of sentences, one row for each (tone, cells): on a narrow page a row becomes a block.

    The tone is "holds", "fails", "undecided" or "" and colours the first cell; a cell is words, or (words, address)
    with an address in this folder.
    """
    top = "".join(f'<th scope="col">{_safe(cell)}</th>' for cell in head)
    body = []
    for tone, cells in rows:
        marked = [
            f'<td data-head="{_safe(name)}">{_linked(cell)}</td>'
            for name, cell in zip(head[1:], cells[1:], strict=True)
        ]
        body.append(f'<tr><th scope="row" class="tone {_safe(tone)}">{_linked(cells[0])}</th>{"".join(marked)}</tr>')
    return Html(
        f'<table class="findings"><caption>{_safe(caption)}</caption><thead><tr>{top}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def terms(pairs: Iterable[tuple[str, Sequence[str]]]) -> Html:
    """A list of terms, each with what is said about it."""
    items = "".join(
        f"<dt>{_safe(term)}</dt>" + "".join(f"<dd>{_safe(line)}</dd>" for line in said) for term, said in pairs
    )
    return Html(f"<dl>{items}</dl>")


def references(entries: Iterable[tuple[str, str]]) -> Html:
    """A list of works: (what it says, address or "")."""
    items = []
    for words, url in entries:
        link = f' <a href="{_safe(url)}">{_safe(url)}</a>' if url.startswith("https://") else ""
        items.append(f"<li>{_safe(words)}{link}</li>")
    return Html(f"<ul>{''.join(items)}</ul>")


def picture(figure: Figure, alt: str) -> Html:
    """A figure drawn four times, for light and dark, wide and narrow; the browser takes the one that fits."""
    images = {(dark, narrow): image for narrow in (True, False) for dark, image in enumerate(_images(figure, narrow))}
    sources = []
    for dark, narrow in ((True, True), (False, True), (True, False)):
        media = " and ".join(
            [*(["(prefers-color-scheme: dark)"] if dark else []), *([f"(max-width: {NARROW}px)"] if narrow else [])]
        )
        address, size = images[dark, narrow]
        sources.append(f'<source media="{media}" srcset="{address}"{size}>')
    address, size = images[False, False]
    image = f'<img src="{address}"{size} alt="{_safe(alt)}">'
    caption = f"<figcaption>{_safe(figure.caption)}</figcaption>" if figure.caption else ""
    return Html(f"<figure><picture>{''.join(sources)}{image}</picture>{caption}</figure>")


def download(words: str, name: str, content: bytes, kind: str) -> Html:
    """A paragraph with a link that saves `content` as the file `name`; `kind` is its media type.

    >>> download("Numbers", "n.csv", b"a", "text/csv")
    '<p><a download="n.csv" href="data:text/csv;base64,YQ==">Numbers</a></p>'
    """
    address = f"data:{_safe(kind)};base64,{base64.b64encode(content).decode()}"
    return Html(f'<p><a download="{_safe(name)}" href="{address}">{_safe(words)}</a></p>')


def section(ident: str, title: str, *blocks: Html) -> Html:
    """A section with its heading and an address on the page."""
    return Html(
        f'<section id="{_safe(ident)}" aria-labelledby="{_safe(ident)}-title">'
        f'<h2 id="{_safe(ident)}-title">{_safe(title)}</h2>\n' + "\n".join(blocks) + "</section>"
    )


def contents(entries: Iterable[tuple[str, str]]) -> Html:
    """Links to the sections: (ident, words)."""
    items = "".join(f'<li><a href="#{_safe(ident)}">{_safe(words)}</a></li>' for ident, words in entries)
    return Html(f'<nav aria-label="Contents"><ol>{items}</ol></nav>')


def links(entries: Iterable[tuple[str, str]]) -> Html:
    """Links to other pages of the folder: (address, words)."""
    return Html("<p>" + " · ".join(_linked((words, address)) for address, words in entries) + "</p>")


def page(title: str, *blocks: Html) -> str:
    """The whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_safe(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{_safe(title)}</h1>\n"
        + "\n".join(blocks)
        + "\n</main>\n</body>\n</html>\n"
    )


def _safe(words: str) -> str:
    return html.escape(words, quote=True)


def _linked(cell: str | tuple[str, str]) -> str:
    if isinstance(cell, str):
        return _safe(cell)
    words, address = cell
    near = re.fullmatch(r"[A-Za-z0-9_-]*(\.html)?(#[A-Za-z0-9_-]+)?", address)
    return f'<a href="{_safe(address)}">{_safe(words)}</a>' if near and address else _safe(words)


def _images(figure: Figure, narrow: bool) -> list[tuple[str, str]]:
    """The light and the dark drawing, address and size: vectors, or pixels where these are much smaller."""
    shape = {"columns": 1, "panel_size": NARROW_PANEL} if narrow else {}
    made = lambda form, dark: draw.drawn(figure, form, dark=dark, caption=False, title=False, **shape)  # type: ignore[arg-type]
    light = made("svg", False)
    if len(light) <= LARGE:
        dark = _darkened(light.decode()).encode() if _plain_colours(figure) else made("svg", True)
        return [("data:image/svg+xml;base64," + base64.b64encode(x).decode(), "") for x in (light, dark)]
    return [_pixels(made("png", dark)) for dark in (False, True)]


def _pixels(drawn: bytes) -> tuple[str, str]:
    width, height = (round(int.from_bytes(drawn[at : at + 4], "big") * 96 / 200) for at in (16, 20))
    return "data:image/png;base64," + base64.b64encode(drawn).decode(), f' width="{width}" height="{height}"'


def _plain_colours(figure: Figure) -> bool:
    """Whether every colour is one of the theme's own, so that a dark drawing is the light one with others put in."""
    scales = [panel.colours for panel in figure.panels]
    filled = any(m.kind in ("area", "cells") for panel in figure.panels for m in panel.marks)
    return not filled and all(scale is None or scale.kind == "category" for scale in scales)


def _darkened(image: str) -> str:
    """A light drawing in the dark theme's colours; drawing takes a hundred times as long."""
    return re.sub("|".join(_DARKER), lambda found: _DARKER[found[0]], image)


_DARKER = {getattr(LIGHT, name): getattr(DARK, name) for name in ("ink", "muted", "grid", "paper")}
_DARKER |= dict(zip(LIGHT.categories, DARK.categories, strict=True))


def _colours(look: Theme) -> str:
    return f"--ink:{look.ink};--muted:{look.muted};--rule:{look.grid};--paper:{look.paper}"


_STYLE = f"""
:root{{{_colours(LIGHT)};--soft:#f4f5f7;--link:#0b4f9c;--edge:#9c3a05;
 --good:#17692f;--bad:#b3261e;--open:#7a5200}}
@media (prefers-color-scheme: dark){{:root{{{_colours(DARK)};--soft:#1d2126;--link:#8fc1f7;--edge:#f07a24;
 --good:#6ad28f;--bad:#ff9a90;--open:#f0b84a}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--paper);color:var(--ink);line-height:1.55;
 font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;overflow-wrap:break-word}}
main{{max-width:66rem;margin:0 auto;padding:1.5rem 1rem 4rem}}
h1{{font-size:1.7rem;line-height:1.2;margin:.5rem 0 .75rem}}
h2{{font-size:1.3rem;line-height:1.3;margin:0 0 .5rem}}
h3{{font-size:1rem;margin:1.5rem 0 .4rem}}
p,li,dd,dt{{max-width:46rem}}
p{{margin:.5rem 0}}
.lead{{font-size:1.08rem}}
.note,figcaption,caption{{color:var(--muted);font-size:.9rem}}
.verdict{{border-left:3px solid var(--edge);padding-left:.8rem}}
section{{border-top:1px solid var(--rule);margin-top:2.5rem;padding-top:1.5rem}}
figure{{margin:1.25rem 0}}
figcaption{{max-width:46rem;margin-top:.4rem}}
img{{display:block;max-width:100%;height:auto}}
table{{border-collapse:collapse;min-width:min(100%,32rem);margin:1rem 0;font-size:.9rem;
 font-variant-numeric:tabular-nums}}
caption{{text-align:left;padding-bottom:.4rem;max-width:46rem}}
th,td{{text-align:right;padding:.3rem .7rem;border-bottom:1px solid var(--rule);vertical-align:top;font-weight:400}}
th:first-child{{padding-left:0}}
th:first-child,.words{{text-align:left}}
thead th{{font-weight:600;vertical-align:bottom;border-bottom-color:var(--muted)}}
.findings th,.findings td{{text-align:left;padding:.5rem .7rem}}
.findings{{width:100%}}
.findings th:first-child{{padding-left:0}}
.tone{{font-weight:600;white-space:nowrap}}
.holds{{color:var(--good)}}
.fails{{color:var(--bad)}}
.undecided{{color:var(--open)}}
pre{{background:var(--soft);padding:.8rem 1rem;border-radius:4px;font-size:.85rem;line-height:1.45;
 white-space:pre-wrap;overflow-wrap:anywhere;margin:.6rem 0}}
code{{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}
a{{color:var(--link)}}
a:focus-visible{{outline:2px solid var(--edge);outline-offset:2px}}
dl{{margin:.6rem 0}}
dt{{font-weight:600;margin-top:.6rem}}
dd{{margin:0 0 0 1rem;font-size:.92rem}}
nav ol{{padding-left:1.3rem}}
@media (max-width:{NARROW}px){{
 main{{padding:1rem 1rem 3rem}}
 h1{{font-size:1.4rem}}
 table{{font-size:.8rem;width:100%}}
 th,td{{padding:.3rem .3rem}}
 dd{{margin-left:.4rem}}
 .findings thead{{display:none}}
 .findings caption,.findings tbody,.findings tr,.findings th,.findings td{{display:block}}
 .findings tr{{border-bottom:1px solid var(--rule);padding:.6rem 0}}
 .findings th,.findings td{{border:0;padding:.1rem 0}}
 .findings td:empty{{display:none}}
 .findings td::before{{content:attr(data-head) ": ";color:var(--muted)}}
}}
@media (max-width:350px){{
 th,td{{overflow-wrap:anywhere}}
}}
@media print{{section{{break-inside:avoid-page}}}}
"""
