"""When to look at a training run; the rules are the probes', which stand further to the left."""

from richter.probes.moments import chosen as chosen
from richter.probes.moments import log_moments as log_moments
