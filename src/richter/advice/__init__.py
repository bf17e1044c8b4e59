"""Advice: where a network stands, what to change, and what that will do."""

from richter.advice.advise import advise as advise
from richter.advice.fit import fit_recorded as fit_recorded
from richter.advice.fit import fit_run as fit_run
from richter.advice.levers import GOALS as GOALS
from richter.advice.option import Advice as Advice
from richter.advice.option import Option as Option
from richter.advice.predict import predict as predict
from richter.advice.prediction import Prediction as Prediction
