"""Renderers of a figure: matplotlib for paper (`to_matplotlib`), plotly for pages (`to_plotly`, `to_html`).

Both libraries are imported only when something is drawn.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from richter.draw.page import to_html as to_html
from richter.draw.page import to_plotly as to_plotly
from richter.draw.paper import to_matplotlib as to_matplotlib
from richter.errors import FileError, message
from richter.figure.data import Figure

PAPER = (".png", ".svg", ".pdf")


def save(figure: Figure, path: str | os.PathLike[str], *, dark: bool = False) -> Path:
    """Draw into a file: .png, .svg and .pdf by matplotlib, .html by plotly. It appears whole or not at all."""
    target = target_of(path)
    suffix = target.suffix.lower()
    if suffix == ".html":
        content = to_html(figure, dark=dark).encode()
    else:
        content = drawn(figure, suffix[1:], dark=dark)
    return write(target, content)


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that `save` will write, or why it cannot: to be asked before the work, not after it."""
    target = Path(path)
    if target.suffix.lower() not in (*PAPER, ".html"):
        raise FileError(message("the file of a figure", f"end in {', '.join(PAPER)} or .html", str(target)))
    if not target.parent.is_dir():
        raise FileError(message("the folder of the figure", "exist", str(target.parent), "Make it first."))
    return target


def drawn(
    figure: Figure,
    form: str,
    *,
    dark: bool = False,
    columns: int | None = None,
    caption: bool = True,
    title: bool = True,
    panel_size: tuple[float, float] = (3.4, 2.7),
) -> bytes:
    """The content of a "png", "svg" or "pdf" file."""
    drawing = to_matplotlib(figure, dark=dark, columns=columns, caption=caption, title=title, panel_size=panel_size)
    buffer = io.BytesIO()
    # No date, no addresses: the same figure gives nearly the same file, and an SVG names no other place.
    svg = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    undated = {"svg": svg, "pdf": {"CreationDate": None}}.get(form)
    drawing.savefig(buffer, format=form, dpi=200, metadata=undated)
    return buffer.getvalue()


def write(target: Path, content: bytes) -> Path:
    """Put the content into the file at once."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, target)
    except OSError as problem:
        raise FileError(f"{target} could not be written: {problem}") from None
    finally:
        part.unlink(missing_ok=True)
    return target
