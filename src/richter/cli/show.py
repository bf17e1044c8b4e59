"""`richter show`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def show(
    name: Annotated[str, typer.Argument(help="A theory: single-neuron or SingleNeuron; or an experiment.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the parameters.")] = False,
) -> None:
    """Show a theory (formula, assumptions, parameters, variables, errata) or an experiment (claims, settings).

    Example:  richter show single-neuron
    """
    from richter import catalog
    from richter.params import declared, json_schema

    if name in catalog.experiments():
        from richter.cli.show_experiment import show_experiment

        show_experiment(catalog.experiment(name), as_json)
        return
    theory = catalog.theory(name)
    params = declared(theory)
    if schema:
        typer.echo(json.dumps(json_schema(theory.__name__, theory.valid, params), ensure_ascii=False, indent=1))
        return
    papers = {place.paper.key for place in theory.places}
    errata = [f for f in catalog.formulas() if f.place.erratum and f.place.paper.key in papers and _near(theory, f)]
    if as_json:
        plain: dict[str, Any] = {
            "name": theory.name,
            "class": theory.__name__,
            "title": theory.title,
            "formula": theory.formula,
            "valid": theory.valid,
            "loss": theory.loss_says,
            "loss_factor": theory.loss_factor,
            "places": [str(place) for place in theory.places],
            "params": json_schema(theory.__name__, theory.valid, params),
            "variables": [
                {"name": v.name, "dims": list(v.dims), "says": v.says, "role": v.role,
                 "undefined_when": v.undefined_when}
                for v in theory.variables
            ],
            "errata": [
                {"place": str(f.place), "printed": f.place.erratum.printed, "right": f.place.erratum.right,
                 "how": f.place.erratum.how}
                for f in errata if f.place.erratum
            ],
            "schema": 1,
        }  # fmt: skip
        typer.echo(json.dumps(plain, ensure_ascii=False))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{theory.title}[/]  ({theory.name}, richter.theory.{theory.__name__})")
    for label, text in (
        ("Setting", theory.valid),
        ("Solution", theory.formula),
        ("Loss", f"{theory.loss_says}; d(output)/dt = −{theory.loss_factor:g} · kernel · residual"),
        ("Where", ", ".join(str(place) for place in theory.places)),
    ):
        console.print(f"[bold]{label:9}[/] {escape(text)}")
    table = Table("parameter", "symbol", "shape", "default", "meaning", box=box.SIMPLE_HEAD, title="Parameters",
                  title_justify="left")  # fmt: skip
    for key, p in params.items():
        meaning = escape(p.says + (f" ({p.condition})" if p.condition else ""))
        table.add_row(key, escape(p.symbol), p.shape, p.default_text, meaning)
    console.print(table)
    table = Table("variable", "symbol", "dims", "meaning", "undefined when", box=box.SIMPLE_HEAD, title="Variables",
                  title_justify="left")  # fmt: skip
    for v in theory.variables:
        table.add_row(v.name, escape(v.symbol), ", ".join(("t", *v.dims)), escape(v.says), v.undefined_when)
    console.print(table)
    if errata:
        console.print("[bold]Errata[/] (what is printed is wrong here)")
        for f in errata:
            if f.place.erratum:
                console.print(f"  {f.place}: printed {escape(f.place.erratum.printed)}")
                console.print(f"      right: {escape(f.place.erratum.right)}")
    console.print(f"\nSolve it: richter solve {theory.name} --help")


def _near(theory: Any, formula: Any) -> bool:
    """Whether the theory's file uses the module of the formula."""
    import inspect

    def imports(module_name: str, seen: set[str]) -> set[str]:
        import sys

        module = sys.modules.get(module_name)
        if module is None or module_name in seen or not module_name.startswith("richter.maths"):
            return seen
        seen.add(module_name)
        for value in vars(module).values():
            imports(getattr(value, "__module__", "") or "", seen)
        return seen

    used: set[str] = set()
    for value in vars(inspect.getmodule(theory)).values():
        imports(getattr(value, "__module__", "") or "", used)
    witness = {"richter.maths.neuron": "richter.maths.neuron_cases"}
    used |= {witness[m] for m in list(used) if m in witness}
    return formula.function.__module__ in used
