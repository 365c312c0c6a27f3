"""The certificate: one self-contained page with all that a reader of a release needs.

It is made of the record, the ledger's sums and versions. Nothing else of the data is known here.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from html import escape
from importlib import metadata, resources
from typing import Any

from dpsubset.certificate.spending import Spend, find_spend
from dpsubset.privacy import Guarantee
from dpsubset.privacy.ledger import LedgerLike, as_ledger
from dpsubset.privacy.shown import fields_html, paragraph_html, printable, rows_html
from dpsubset.records import digest

__all__ = ["page"]

_LIBRARIES = ("numpy", "scipy", "numba")
_WORDS = {"n_columns": "columns in all"}
_SIGNERS = ("Released by", "Approved by")
_MEANS = (
    "Nobody who sees this release, whatever else they know and whatever computer they have, can "
    "tell much about {what} of any one person."
)
_WHAT = {
    "replace-one": "the values in the row",
    "add-remove": "the row, nor whether there is one,",
}
_NOT = (
    "The guarantee does not say that the columns are the best ones: they are drawn, and better "
    "ones are likelier. It does not hide what holds for people in general. It does not cover "
    "predictions made for rows of the table, running times, or other releases from the same "
    "table: their epsilons add up."
)


def page(record: Mapping[str, Any], *, ledger: LedgerLike = None, day: str | None = None) -> str:
    """Return the certificate of a release as HTML, without links to anything outside.

    Parameters
    ----------
    record : mapping
        What `Release.to_dict()` returns, or `read_record` reads.
    ledger : Ledger or path, optional
        The ledger that was charged: the budget before and after the release is shown.
    day : str, optional
        The day of the release, if no ledger tells it. When a release *ended* depends on the data:
        give the day it began.

    Returns
    -------
    str
        A whole page; `dpsubset select --report` writes it to a file.

    Examples
    --------
    >>> from dpsubset import Guarantee, Release
    >>> guarantee = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    >>> text = page(Release((1,), guarantee, ("<age>",)).to_dict())
    >>> "&lt;age&gt;" in text, "<age>" in text
    (True, False)
    """
    promise = Guarantee.from_dict(record["guarantee"])
    opened = as_ledger(ledger)
    spend = None if opened is None else find_spend(opened, record)
    day = day if spend is None else spend.day
    body = [
        "<h1>Certificate of a private release</h1>",
        paragraph_html(_headline(record, day)),
        *_reserves(promise),
        _section("Released", _released(record)),
        _section("Guarantee", _guaranteed(promise)),
        _section("Budget", _budget(spend)),
        _section("Asked", fields_html(_asked(record["asked"]))),
        _section("How to check it", _checking(record, spend)),
        _section("Made with", paragraph_html(_versions(record))),
        _section("Signatures", "".join(map(_signature, _SIGNERS)), "signatures"),
        _record(record),
    ]
    style = resources.files("dpsubset.certificate").joinpath("page.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_escaped(_title(record))}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _escaped(text: Any) -> str:
    return escape(printable(str(text)))


def _section(head: str, content: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f"<section{named}>\n<h2>{head}</h2>\n{content}\n</section>"


def _title(record: Mapping[str, Any]) -> str:
    return f"Private release: {record['asked'].get('table') or 'table not named'}"


def _headline(record: Mapping[str, Any], day: str | None) -> str:
    asked = record["asked"]
    what = "A model" if "coefficients" in record["released"] else "Columns"
    target = asked.get("target") or "the target"
    when = f", {day}" if day else ""
    return f"{what} for {target}, from the table {asked.get('table') or '(not named)'}{when}"


def _reserves(promise: Guarantee) -> list[str]:
    """Return what must be seen before all else: a seed, a condition."""
    found = []
    if promise.randomness == "seeded":
        found.append("An experiment, not a private release: the randomness was seeded.")
    if promise.condition:
        found.append(f"The guarantee holds only if {promise.condition}.")
    return [f'<div class="warning">{paragraph_html(text)}</div>' for text in found]


def _released(record: Mapping[str, Any]) -> str:
    released = record["released"]
    names: Sequence[Any] = released.get("columns") or released.get("positions") or ()
    if "coefficients" in released:
        pairs = zip(released.get("labels") or names, released["coefficients"], strict=True)
        rows = [(str(name), f"{value:.6g}") for name, value in pairs]
        shown = rows_html(
            ("column", "coefficient"), [*rows, ("intercept", f"{released['intercept']:.6g}")]
        )
    else:
        shown = f"<ul>{''.join(f'<li>{_escaped(name)}</li>' for name in names)}</ul>"
    drawn = "window" if "window_share" in record["asked"] else "bounds"
    offset, bounds, more = released.get("offset"), released.get("target_bounds"), []
    if offset is not None:
        part = ", part of the intercept" if "coefficients" in released else ""
        more.append(("offset", f"{_said(offset)}, drawn privately{part}"))
    if bounds is not None:
        more.append((f"target's {drawn}", f"{' to '.join(map(_said, bounds))}, drawn privately"))
    return shown + (fields_html(more) if more else "")


def _guaranteed(promise: Guarantee) -> str:
    means = _MEANS.format(what=_WHAT[promise.neighbours])
    if promise.condition:
        means = f"If the condition holds: n{means[1:]}"
    if promise.randomness == "seeded":
        means = "Anyone who knows the seed can undo the protection."
    return "".join(
        [
            promise._repr_html_(),
            paragraph_html(means),
            paragraph_html(_NOT),
            f'<div class="exact">{paragraph_html(promise.sentence)}</div>',
        ]
    )


def _budget(spend: Spend | None) -> str:
    if spend is None:
        return paragraph_html(
            "No ledger was charged: whoever publishes this counts what is spent on the table."
        )
    cost = (spend.entry.guarantee.epsilon, spend.entry.guarantee.delta)
    lines = (
        ("whole budget", spend.budget),
        ("spent before", spend.before),
        ("this release", cost),
        ("left after it", spend.left),
    )
    rows = [(name, f"{e:.12g}", f"{d:.12g}") for name, (e, d) in lines]
    by = "" if spend.entry.by is None else f" by {spend.entry.by}"
    entry = paragraph_html(f"Entry {spend.entry.number} of the ledger, charged on {spend.day}{by}.")
    return rows_html(("", "epsilon", "delta"), rows) + entry


def _asked(asked: Mapping[str, Any]) -> list[tuple[str, str]]:
    hidden = {"schema"}  # has a place of its own
    return [
        (_WORDS.get(name, name.replace("_", " ")), _said(value))
        for name, value in asked.items()
        if name not in hidden and value is not None and value != []
    ] or [("settings", "not recorded")]


def _said(value: Any) -> str:
    """Return a setting as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        parts = [f"{k} {_said(v)}" for k, v in value.items() if v is not None and k != "name"]
        return ", ".join(([str(value["name"])] if "name" in value else []) + parts)
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return str(value)


def _checking(record: Mapping[str, Any], spend: Spend | None) -> str:
    sums = [("record", digest(record))]
    if "schema" in record["asked"]:
        sums.append(("schema", str(record["asked"]["schema"])))
    options = "--schema schema.toml" + ("" if spend is None else " --ledger budget.db")
    return (
        paragraph_html(
            "With the release file, the schema and the ledger, run this. It recomputes the "
            "checksums (SHA-256) below, and looks for the entry of the ledger that holds this "
            "release. The record at the end of this page, saved as release.json, is the release "
            "file."
        )
        + f"<pre>dpsubset verify release.json {options} \\\n  --sha256 {digest(record)}</pre>"
        + fields_html(sums)
    )


def _versions(record: Mapping[str, Any]) -> str:
    libraries = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    own, python = f"dpsubset {record['dpsubset']}", f"Python {platform.python_version()}"
    return ", ".join([own, python, *libraries, f"{platform.system()} {platform.machine()}"])


def _signature(who: str) -> str:
    lines = "".join(f"<dt>{line}</dt><dd></dd>" for line in ("Name, role", "Date", "Signature"))
    return f'<div class="signature"><h3>{who}</h3><dl>{lines}</dl></div>'


def _record(record: Mapping[str, Any]) -> str:
    text = json.dumps(dict(record), indent=2, ensure_ascii=True)
    return f"<details><summary>The whole record</summary>\n<pre>{escape(text)}</pre></details>"
