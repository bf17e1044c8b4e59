"""Wrong versions of the theories, to judge the laws: every mutant must die, every law must kill.

`python -m richter.testing.mutants` prints which law finds which mutant and exits 1 if one survives.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
RUN = """
import json, warnings
warnings.simplefilter("error")
from richter.testing.laws import laws
from richter.testing.zoo import members
broken = {}
affected = tuple(PREFIXES)
for member in members():
    if affected and not member.name.startswith(affected):
        continue
    for name, law in laws().items():
        if member.why_not(name) is None:
            try:
                law(member)
            except Exception as problem:
                broken.setdefault(name, []).append(member.name)
print(json.dumps(broken))
"""


@dataclass(frozen=True)
class Mutant:
    """One wrong line: `old` in `file` becomes `new`."""

    says: str
    file: str
    old: str
    new: str


MUTANTS: tuple[Mutant, ...] = (
    # The single neuron.
    Mutant("rotation with the wrong sign", "maths/neuron.py", "rotation = turn - ", "rotation = turn + "),
    Mutant("factor ½ of 2R dropped", "maths/neuron.py", "big = F / (2 * m.root)", "big = F / m.root"),
    Mutant("w⊥ left out of the norm", "maths/neuron.py", "mass = weight + big + tail", "mass = weight + big"),
    Mutant("δ instead of δ/2", "maths/neuron.py", "    h = delta / 2\n", "    h = delta\n"),
    Mutant("rates swapped in the rescaling", "maths/neuron.py",
           "root_a, root_w = xp.sqrt(eta_w), xp.sqrt(eta_a)", "root_a, root_w = xp.sqrt(eta_a), xp.sqrt(eta_w)"),
    Mutant("y₋ with the wrong sign for δ < 0", "maths/neuron.py",
           "sin * (along * (B / slow) - a)", "sin * (along * (B / slow) + a)"),
    Mutant("loss without ½", "maths/neuron.py", "/ (2 * (m.root_a * m.root_w) ** 2)", "/ (m.root_a * m.root_w) ** 2"),
    Mutant("loss keeps its residual along β* only", "maths/neuron.py",
           "(short * short + side_square)", "(short * short)"),
    Mutant("saddle treated like any start", "maths/neuron.py",
           "y_plus == 0, frozen_a", "y_plus != y_plus, frozen_a"),
    Mutant("φ loses its sign", "maths/neuron.py", "xp.where(square > 0, along, xp.nan)",
           "xp.where(square > 0, xp.abs(along), xp.nan)"),
    Mutant("kernel distance with a₀ for a(t)", "maths/neuron.py",
           "                a * a,\n", "                m.a0 * m.a0 + 0 * a,\n"),
    Mutant("kernel: rates swapped", "maths/neuron_law.py", "identity * (eta_w * a * a)", "identity * (eta_a * a * a)"),
    Mutant("flow and exact on another clock", "theory/single_neuron.py",
           'return {"a": da, "w": dw}', 'return {"a": 2 * da, "w": 2 * dw}'),
    Mutant("flow: rate of w forgotten", "maths/neuron_law.py", "eta_w * a * error", "a * error"),
    Mutant("δ with a plus", "maths/neuron_law.py", "(left - right) * (left + right)", "(left + right) * (left + right)"),
    Mutant("frozen a: w at the wrong rate", "maths/neuron.py",
           "w = left_w * w0 + (time_w * a0) * beta_star", "w = left_w * w0 + (2 * time_w * a0) * beta_star"),
    Mutant("frozen layer: kernel distance 0 though it is not defined", "maths/neuron.py",
           '"kernel_distance": lambda: xp.where(moving, 0.0, xp.nan)', '"kernel_distance": lambda: xp.where(moving, 0.0, 0.0)'),
    # Pairs of layers.
    Mutant("rate 4 instead of 2 (the misprint of NAM24 Eq. 6.12)", "maths/growth.py",
           "E = xp.exp(-2 * r.root", "E = xp.exp(-4 * r.root"),
    Mutant("R with 2AB for 4AB", "maths/growth.py", "kernel = 2 * safe_root(xp, p)", "kernel = 1.414 * safe_root(xp, p)"),
    Mutant("growth upside down", "maths/growth.py", "factor = N / D_safe", "factor = D / N_safe"),
    Mutant("share left squared", "maths/growth.py", "        left = E / (N * D)\n", "        left = (E / (N * D)) ** 2\n"),
    Mutant("no limit ∞ at P = 0", "maths/growth.py", "xp.where(infinite, xp.inf, xp.where(vanishing, 0.0, factor))",
           "xp.where(infinite, 1.0, xp.where(vanishing, 0.0, factor))"),
    Mutant("stretch has the sign of its size", "maths/growth.py",
           "stretch = (r.pull * T)", "stretch = (xp.abs(r.pull) * T)"),
    Mutant("v moves like u", "maths/pair.py", "(push, sign * push) if of_u else (sign * push, push)", "(push, sign * push) if of_u else (push, push)"),
    Mutant("w recovered with the other rate (the misprint of XU24 §3.1)", "maths/pair.py",
           "layer(False)[3] / m.root_v", "layer(False)[3] / m.root_u"),
    Mutant("kernel without its factor 2", "maths/pair.py", '"kernel": lambda: 2 * (grown + fallen)',
           '"kernel": lambda: grown + fallen'),
    Mutant("q grows", "maths/pair.py", "xp.where(rises, s, s - push)", "xp.where(rises, 1 / s, s - push)"),
    Mutant("norm without its cross term", "maths/pair.py", "stable = turning + 2 * at(m.low), turning + 2 * at(m.high)", "stable = turning, turning"),
    Mutant("kernel gain without Q/α", "maths/pair.py", "(grown - r.p) + (fallen - r.q)", "(grown - r.p)"),
    Mutant("frozen layer at twice the rate", "maths/pair.py", "drive = lasting * m.scale", "drive = 2 * lasting * m.scale"),
    Mutant("ρ as a mean (the misprint of XU24)", "theory/wide_scalar.py",
           "rho = np.sqrt((p.x * p.x).sum(axis=0))\n        direction", "rho = np.sqrt((p.x * p.x).mean(axis=0))\n        direction"),
    Mutant("loss factor 1", "theory/wide_scalar.py", "loss_factor: ClassVar[float] = 2.0", "loss_factor: ClassVar[float] = 1.0"),
    Mutant("clock without the factor 2", "theory/wide_scalar.py",
           "p.gamma * rho, 2.0, p.eta_u, p.eta_w)", "p.gamma * rho, 1.0, p.eta_u, p.eta_w)"),
    Mutant("loss is not squared", "theory/wide_scalar.py", 'out["loss"] = got["residual"] ** 2', 'out["loss"] = np.abs(got["residual"])'),
    Mutant("flow climbs in w", "maths/wide_law.py", "-2 * eta_w * gamma * u", "2 * eta_w * gamma * u"),
    Mutant("loss without ½", "theory/scalar_network.py",
           'p.input_variance * got["residual"] ** 2 / 2', 'p.input_variance * got["residual"] ** 2'),
    Mutant("kernel without E[x²]", "theory/scalar_network.py",
           'p.input_variance * got["kernel"]', 'got["kernel"]'),
    Mutant("layers swapped", "theory/scalar_network.py", "layer_pair(p.b0, p.a0,", "layer_pair(p.a0, p.b0,"),
    Mutant("Z forgotten in the flow", "theory/scalar_network.py",
           "force = p.input_variance / p.normalisation", "force = p.input_variance"),
    Mutant("imbalance with the rates swapped", "maths/wide_law.py",
           "left, right = xp.sqrt(eta_u) * xp.abs(v), xp.sqrt(eta_v) * xp.abs(u)",
           "left, right = xp.sqrt(eta_v) * xp.abs(v), xp.sqrt(eta_u) * xp.abs(u)"),
    Mutant("E[x²] forgotten in the clock", "theory/diagonal_network.py",
           "layer_pair(p.b0[None], p.a0[None], p.target, 1.0, p.input_variance,",
           "layer_pair(p.b0[None], p.a0[None], p.target, 1.0, 1.0,"),
    Mutant("kernel's turn without projection", "maths/spectrum.py",
           "across = part - unit * inner(part, unit)", "across = part"),
    Mutant("alignment without weights", "theory/diagonal_network.py",
           "inner = lambda x, y: (weight * x * y).sum(axis=0)", "inner = lambda x, y: (x * y).sum(axis=0)"),
    Mutant("start forgotten", "maths/linear.py", "return done * c + left * start", "return done * c"),
    Mutant("exponential of the opposite sign of the start", "maths/linear.py",
           "left * (start - c)", "left * (start + c)"),
    Mutant("relaxes without η", "maths/linear.py", "rate = eta * eigenvalues", "rate = eigenvalues"),
    # The isotropic wide network.
    Mutant("δ instead of δ/2", "maths/riccati.py", "h = np.broadcast_to(delta, front)[..., None] / 2", "h = np.broadcast_to(delta, front)[..., None]"),
    Mutant("growing directions shrink", "maths/riccati.py", "np.where(grows, modes.excess", "np.where(grows, -modes.excess"),
    Mutant("the identity left out of the basis", "maths/riccati.py",
           "np.broadcast_to(np.eye(h), (count, h, h))", "np.broadcast_to(1e-9 * np.eye(h), (count, h, h))"),
    Mutant("all directions equal at t = ∞", "maths/riccati.py", "ENDLESS * modes.ranks[..., None, :]", "ENDLESS"),
    Mutant("rates swapped in the rescaling", "theory/isotropic_network.py",
           "root_a, root_w = np.sqrt(eta_w), np.sqrt(eta_a)", "root_a, root_w = np.sqrt(eta_a), np.sqrt(eta_w)"),
    Mutant("loss without ½", "theory/isotropic_network.py",
           '"de...,ec...->dc...", gram, error)) / 2', '"de...,ec...->dc...", gram, error))'),
    Mutant("flow of W with the other layer's rate", "maths/network_law.py",
           "dW = -eta_w * np.einsum", "dW = -eta_a * np.einsum"),
    Mutant("early: the pair's components do not mix", "maths/riccati.py", "across * up + (sin**2", "0 * up + (sin**2"),
    Mutant("early: the identity left out", "maths/riccati.py", "np.linalg.cholesky(np.eye(shape[-1]) +", "np.linalg.cholesky(1e-3 * np.eye(shape[-1]) +"),
    Mutant("frozen A: rate with s for s²", "maths/frozen_network.py", "* (s * s)[..., None]", "* s[..., None]"),
    Mutant("frozen W: inputs forgotten", "maths/frozen_network.py", "_decomposed(W @ flip(root))", "_decomposed(W)"),
    # The aligned network.
    Mutant("deep clock without the pole's logarithm", "maths/deep_modes.py",
           "np.log(np.abs(inner / reference)) / q", "np.log(np.abs(inner / reference))"),
    Mutant("L − 1 for L − 2", "maths/deep_modes.py", "elapsed = np.minimum(rate * (depth - 2)", "elapsed = np.minimum(rate * (depth - 1)"),
    Mutant("a start of the wrong sign crosses 0", "maths/deep_modes.py", "sign * v, np.where(sign == 0", "v, np.where(sign == 0"),
    Mutant("kernel without D", "maths/logistic.py", "return spectrum * xp.sqrt(4 * eta_a", "return xp.sqrt(4 * eta_a"),
    Mutant("loss without weights", "theory/aligned_network.py",
           "weigh = lambda x, y: (p.input_spectrum * x * y)", "weigh = lambda x, y: (x * y)"),
    Mutant("P and Q swapped for a start of the target's sign", "maths/balance.py",
           "growth_rates(xp.where(up, more, less), xp.where(up, less, more),", "growth_rates(xp.where(up, less, more), xp.where(up, more, less),"),
    Mutant("δ instead of δ²/4 over the larger part", "maths/balance.py", "* delta / 4\n", "/ 4\n"),
    Mutant("exponent 2 − 1/L", "theory/aligned_network.py", "(u * u) ** ((L - 1) / L)", "(u * u) ** ((L - 0.5) / L)"),
    Mutant("frozen layer without δ", "theory/aligned_network.py",
           "decay = np.exp(-p.input_spectrum * np.abs(p.delta)", "decay = np.exp(-p.input_spectrum * np.abs(1.0)"),
    # Skills.
    Mutant("rate without its factor 2", "maths/multilinear.py", "0.0, 2 * rate * A * S * time", "0.0, rate * A * S * time"),
    Mutant("left of a skill's loss not squared", "maths/multilinear.py",
           "(rest / (1 + rest)) ** 2)", "(rest / (1 + rest)))"),
    Mutant("flow without the rate multiplier", "theory/multilinear_skills.py",
           "strength_flow(state[\"skill_strength\"], self._share(p), p.target, p.eta * p.rate)",
           "strength_flow(state[\"skill_strength\"], self._share(p), p.target, p.eta)"),
    Mutant("ℬ² for ℬ (the misprint of NAM24 Eq. 5.2)", "theory/multilinear_skills.py",
           "multilinear_strength(t, self._share(p), p.target, self._start(p), p.eta * p.rate)",
           "multilinear_strength(t, self._share(p), p.target, self._start(p), p.eta * p.rate**2)"),
    Mutant("skills beyond the model are learned", "theory/multilinear_skills.py",
           "np.arange(n) < N", "np.arange(n) < n"),
    Mutant("skills beyond the model forgotten in the loss", "maths/multilinear.py",
           "(learning + power_sum(power + 1, last + 1, n_skills))).reshape(shape)\n\n\ndef started_loss",
           "(learning)).reshape(shape)\n\n\ndef started_loss"),
    Mutant("starts of their own: loss without ½", "maths/multilinear.py", "weight = P * S**2 / 2", "weight = P * S**2"),
    Mutant("starts of their own: what has none is forgotten", "maths/multilinear.py",
           " + (weight * (R == 0)).sum(axis=0)[:, None]", ""),
    Mutant("a block's weight is its width less one", "maths/skill_sums.py",
           "m[:, None] * vectors[:, 0, :] ** 2", "(m[:, None] - 1) * vectors[:, 0, :] ** 2"),
    Mutant("B outside the data moves", "theory/extended_skills.py",
           'np.moveaxis(got["w"], 0, 1) + prepared.outside', 'np.moveaxis(got["w"], 0, 1)'),
    Mutant("flow of B without a", "maths/extended_skills.py", "-a[:, None] * pull", "-pull"),
    Mutant("conserved with a plus", "maths/extended_skills.py", "a**2 - (B**2).sum(axis=1)", "a**2 + (B**2).sum(axis=1)"),
    Mutant("loss on the data without ½", "theory/extended_skills.py",
           '"loss": (m.value * known).sum(axis=0) / 2', '"loss": (m.value * known).sum(axis=0)'),
    Mutant("the target that the data does not show is learned", "theory/extended_skills.py",
           "m.outside - m.hidden) ** 2", "m.outside) ** 2"),
    Mutant("clock without λ", "theory/extended_skills.py", "speed = m.layout.eta * m.value", "speed = m.layout.eta * (m.value > 0)"),
    # The contract.
    Mutant("times are sorted behind the user's back", "theory/base.py",
           "times = check_times(t)\n        variables = self.select(only)\n        starts", "times = np.sort(check_times(t))\n        variables = self.select(only)\n        starts"),
    Mutant("only the first start is solved", "theory/layout.py",
           "v if v.shape[-2] == 1 else v[..., part, :]", "v[..., :1, :]"),
    Mutant("batches are laid out wrongly", "theory/base.py",
           "np.ascontiguousarray(np.moveaxis(flat, 0, -1))[..., None]",
           "np.ascontiguousarray(np.moveaxis(flat[::-1], 0, -1))[..., None]"),
    Mutant("dimensions out of order", "theory/base.py",
           "((*self.batch_names, \"t\", *v.dims), value)", "((\"t\", *self.batch_names, *v.dims), value)"),
    Mutant("a regime without a name", "theory/single_neuron.py",
           "scalar_if_single(by_movement(most, share), shape)", "scalar_if_single(most, shape)"),
)  # fmt: skip


# Which members a file can spoil; every member for files that are not named.
PAIRED = ("wide", "scalar", "diagonal", "aligned")
AFFECTED = {
    "neuron": ("neuron",), "kernel_movement": ("neuron",), "growth": PAIRED, "pair": PAIRED, "wide_law": PAIRED,
    "wide_scalar": ("wide",), "scalar_network": ("scalar",), "diagonal_network": ("diagonal",),
    "spectrum": ("diagonal", "aligned"), "linear": ("linear",), "riccati": ("isotropic",),
    "isotropic_network": ("isotropic",), "frozen_network": ("isotropic",),
    "network_kernel": ("isotropic",), "deep_modes": ("aligned",), "balance": ("aligned",), "aligned_network": ("aligned",),
    "multilinear": ("multilinear",), "skill_sums": ("multilinear",), "skills": ("multilinear", "extended"),
    "multilinear_skills": ("multilinear",), "extended_skills": ("extended",),
    "neuron_law": ("neuron",), "network_law": ("isotropic",), "single_neuron": ("neuron",), "paired": PAIRED,
}  # fmt: skip


def kills(mutant: Mutant) -> dict[str, list[str]]:
    """The laws that the mutant breaks, and on which members."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "richter"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / mutant.file
        text = file.read_text()
        if text.count(mutant.old) < 1:
            raise AssertionError(f"{mutant.file} no longer contains {mutant.old!r}: rewrite the mutant")
        file.write_text(text.replace(mutant.old, mutant.new))
        done = subprocess.run(
            [sys.executable, "-c", RUN.replace("PREFIXES", repr(AFFECTED.get(Path(mutant.file).stem, ())))],
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
    if done.returncode:
        return {"does not run": [done.stderr.strip().splitlines()[-1]]}
    broken: dict[str, list[str]] = json.loads(done.stdout)
    return broken


def judge(mutants: Sequence[Mutant] = MUTANTS, workers: int = 2) -> list[tuple[Mutant, dict[str, list[str]]]]:
    """Every mutant with the laws that kill it."""
    with ThreadPoolExecutor(workers) as pool:
        return list(zip(mutants, pool.map(kills, mutants), strict=True))


def main() -> int:
    """Print the matrix; 1 if a mutant survives or a law never kills."""
    from richter.testing.laws import laws

    verdicts = judge()
    count = dict.fromkeys(laws(), 0)
    for mutant, broken in verdicts:
        for law in broken:
            count[law] = count.get(law, 0) + 1
        found = ", ".join(f"{law} ({len(where)})" for law, where in broken.items()) or "SURVIVES"
        print(f"{mutant.file}: {mutant.says}\n    {found}")
    print("\nmutants killed by each law:")
    for law, kill in count.items():
        print(f"  {kill:3d}  {law}")
    survivors = [mutant for mutant, broken in verdicts if not broken]
    idle = [law for law, kill in count.items() if not kill]
    print(f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} mutants die; laws that kill none: {idle or 'none'}")
    return int(bool(survivors or idle))


if __name__ == "__main__":
    raise SystemExit(main())
