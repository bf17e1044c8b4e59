"""Published figures, tables and theorems, one per file: parameters, run, claims in the paper's words, figure."""

from richter.experiments.base import AbstractExperiment as AbstractExperiment
from richter.experiments.claims import Claim as Claim
from richter.experiments.claims import Finding as Finding
from richter.experiments.claims import Verdict as Verdict
from richter.experiments.claims import claim as claim
from richter.experiments.settings import setting as setting
