"""Records read back from release files and model files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsubset.errors import InputError
from dpsubset.model_file import read_json, read_model

__all__ = ["read_record"]

_LEDGER = b"SQLite format 3"
_PARTS = {"asked": dict, "released": dict, "guarantee": dict, "dpsubset": str}


def read_record(path: str | Path) -> dict[str, Any]:
    """Read the record of a release file or of a model file; a model's checksum is checked.

    Parameters
    ----------
    path : path
        What `dpsubset select --output` or `dpsubset fit --output` wrote.

    Returns
    -------
    dict
        What was asked and released, the guarantee and the version of dpsubset.

    Examples
    --------
    >>> import json, tempfile
    >>> from dpsubset import Guarantee, Release
    >>> release = Release((1,), Guarantee("exponential mechanism", 1.0, "replace-one", 4.0))
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(json.dumps(release.to_dict()))
    ...     file.flush()
    ...     read_record(file.name)["released"]["positions"]
    [1]
    """
    path = Path(path)
    if path.suffix.lower() in (".html", ".htm"):
        raise InputError(
            f"{path} is a page for people, which anybody can edit: name the release file that "
            "--output wrote, or save the record at the end of the page as a JSON file"
        )
    if _is_ledger(path):
        raise InputError(
            f"{path} is a ledger: name the release file that --output wrote, and give this one as "
            "--ledger (ledger=)"
        )
    content = read_json(path, "release", "select")
    if "format" in content:
        read_model(path)  # complete, of a known version, and as it was written
    if "releases" in content:
        raise InputError(
            f"{path} holds several releases, of --mechanism all: a certificate is of one"
        )
    wrong = [name for name, kind in _PARTS.items() if type(content.get(name)) is not kind]
    if wrong:
        raise InputError(
            f"{path} is not a release that dpsubset wrote: {', '.join(wrong)} missing or wrong"
        )
    return {name: content[name] for name in _PARTS}


def _is_ledger(path: Path) -> bool:
    if not path.is_file():  # a pipe can be read once
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_LEDGER)) == _LEDGER
    except OSError:  # told when the file is read
        return False
