"""Measurements of torch models. Importing this room does not import torch; what needs it says so when called."""

from richter.maths.projections import minimum_projection_distance as minimum_projection_distance
from richter.probes.alignment import layer_alignment as layer_alignment
from richter.probes.collapse import neural_collapse as neural_collapse
from richter.probes.conserved import conserved as conserved
from richter.probes.conserved import conserved_drift as conserved_drift
from richter.probes.conserved import predicted_drift as predicted_drift
from richter.probes.features import feature_metrics as feature_metrics
from richter.probes.features import features as features
from richter.probes.filters import filter_smoothness as filter_smoothness
from richter.probes.loggers import to_mlflow as to_mlflow
from richter.probes.loggers import to_tensorboard as to_tensorboard
from richter.probes.loggers import to_wandb as to_wandb
from richter.probes.moments import LogSpaced as LogSpaced
from richter.probes.moments import LossLevels as LossLevels
from richter.probes.movement import hamming_distance as hamming_distance
from richter.probes.movement import parameter_distance as parameter_distance
from richter.probes.movement import representation_drift as representation_drift
from richter.probes.movement import start as start
from richter.probes.probe import AbstractProbe as AbstractProbe
from richter.probes.probe import Snapshot as Snapshot
from richter.probes.recorder import Recorder as Recorder
from richter.probes.regions import activation_regions as activation_regions
from richter.probes.skill import skill_strength as skill_strength
from richter.probes.watching import Watch as Watch
from richter.probes.watching import watch as watch
