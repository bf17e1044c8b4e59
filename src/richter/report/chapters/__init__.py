"""The chapters of the tour, one file each."""

from collections.abc import Callable

from richter.report.chapters.chapter import Agreement as Agreement
from richter.report.chapters.chapter import Chapter as Chapter
from richter.report.chapters.modes import modes
from richter.report.chapters.network import network
from richter.report.chapters.neuron import neuron
from richter.report.chapters.scale import scale
from richter.report.chapters.width import width

CHAPTERS: dict[str, Callable[[], Chapter]] = {
    "One neuron": neuron,
    "Modes": modes,
    "Scale of the start": scale,
    "Width": width,
}
MEASURED: dict[str, Callable[[], Chapter]] = {"A network on digits": network}  # these need the extra torch
