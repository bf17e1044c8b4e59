"""A figure is data first: panels of marks with roles and colours; `richter.draw` decides how they look."""

from richter.figure.build import axis_label as axis_label
from richter.figure.build import lines as lines
from richter.figure.build import overlay as overlay
from richter.figure.build import panel as panel
from richter.figure.data import Figure as Figure
from richter.figure.data import Mark as Mark
from richter.figure.data import Panel as Panel
from richter.figure.data import mark as mark
from richter.figure.plain import differences as differences
from richter.figure.plain import from_plain as from_plain
from richter.figure.plain import to_plain as to_plain
from richter.figure.scale import ColourScale as ColourScale
from richter.figure.skills import emergence_figure as emergence_figure
from richter.figure.skills import scaling_figure as scaling_figure
from richter.figure.solution import solution_figure as solution_figure
from richter.figure.space import View as View
from richter.figure.space import axes3 as axes3
from richter.figure.space import path as path
from richter.figure.space import scene as scene
from richter.figure.space import surface as surface
