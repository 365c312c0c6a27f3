"""What a first and a second call of `dpsubset select` take, in CPU seconds, after an installation.

`python -m benchmarks.first_call ENVIRONMENT` wants a virtual environment into which the built wheel
was installed, and nothing compiled yet. As root it measures root, then another user (`nobody`) who
reads everything, wherever the interpreter lies, and cannot write to the packages; code that was
kept before is taken away each time.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

__all__ = ["calls"]

_NOBODY = 65534
_AS_NOBODY = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
_SIZES = ((500, 5), (3000, 40))


def _write(folder: Path, n: int, p: int) -> list[str]:
    """Write a table and its bounds; return the words of the command."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, p))
    y = X[:, 0] + 0.3 * rng.normal(size=n)
    names = [f"x{j}" for j in range(p)]
    table, bounds = folder / f"table-{n}.csv", folder / f"bounds-{n}.toml"
    header = ",".join([*names, "y"])
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header=header, comments="")
    bounds.write_text("[default]\nbounds = [0, 1]\n[columns]\ny = [-1, 2]\n")
    size = str(min(2, p))
    words = ["--target", "y", "--bounds", str(bounds), "--size", size, "--epsilon", "1"]
    return ["select", str(table), *words, "--seed", "1"]


def _forget(environment: Path) -> None:
    for kept in environment.rglob("*.nb[ic]"):
        kept.unlink()


def calls(
    environment: Path, home: Path, words: list[str], user: tuple[str, ...]
) -> list[dict[str, object]]:
    """Return CPU seconds of two calls by a user, and whether a line said what is being prepared."""
    found: list[dict[str, object]] = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*user, str(environment / "bin" / "dpsubset"), *words],
            env={"HOME": str(home), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
            cwd=home,
            capture_output=True,
            text=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append({"cpu": round(cpu, 1), "told": "compiling" in done.stderr})
    return found


def main(environment: Path) -> None:
    """Print a line for every size and user."""
    own: tuple[str, ...] = ()
    others = [("another user", _AS_NOBODY)] if os.getuid() == 0 else []
    users = [("root" if others else "user", own), *others]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for n, p in _SIZES:
            words = _write(Path(folder), n, p)
            for name, user in users:
                _forget(environment)
                home = Path(folder) / "home"
                home.mkdir()
                if user:
                    os.chown(home, _NOBODY, _NOBODY)
                first, second = calls(environment, home, words, user)
                print(json.dumps({"n": n, "p": p, "user": name, "first": first, "second": second}))
                sys.stdout.flush()
                shutil.rmtree(home)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
