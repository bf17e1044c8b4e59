"""Exactly solved settings, each in its file, and what belongs to them."""

from richter.theory import convert as convert
from richter.theory.aligned_network import AlignedNetwork as AlignedNetwork
from richter.theory.diagonal_network import DiagonalNetwork as DiagonalNetwork
from richter.theory.eigenlearning import learnability as learnability
from richter.theory.eigenlearning import power_law_learnability as power_law_learnability
from richter.theory.emergence import calibrate_emergence as calibrate_emergence
from richter.theory.emergence import emergence as emergence
from richter.theory.extended_skills import ExtendedSkills as ExtendedSkills
from richter.theory.interpolants import interpolant as interpolant
from richter.theory.isotropic_network import IsotropicNetwork as IsotropicNetwork
from richter.theory.linear_model import LinearModel as LinearModel
from richter.theory.multilinear_skills import MultilinearSkills as MultilinearSkills
from richter.theory.overfitting import sine_fits as sine_fits
from richter.theory.overfitting import two_block as two_block
from richter.theory.phases import phase as phase
from richter.theory.piecewise_network import PiecewiseNetwork as PiecewiseNetwork
from richter.theory.sampled_learning import sample_learnability as sample_learnability
from richter.theory.scalar_network import ScalarNetwork as ScalarNetwork
from richter.theory.scaling import learning_curves as learning_curves
from richter.theory.scaling import scaling as scaling
from richter.theory.single_neuron import SingleNeuron as SingleNeuron
from richter.theory.wide_scalar import WideScalar as WideScalar
