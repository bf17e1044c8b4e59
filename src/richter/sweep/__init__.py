"""A function over a grid of parameters: in parallel, kept batch by batch, resumable, the same for 1 or n workers."""

from richter.sweep.driver import read as read
from richter.sweep.driver import sweep as sweep
from richter.sweep.engines import AbstractEngine as AbstractEngine
from richter.sweep.engines import engine_of as engine_of
from richter.sweep.grid import BATCH as BATCH
from richter.sweep.grid import Grid as Grid
from richter.sweep.machine import cores as cores
from richter.sweep.pace import duration as duration
from richter.sweep.plan import Plan as Plan
from richter.sweep.plan import plan as plan
