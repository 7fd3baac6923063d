"""How long `pptrace check` takes on schedule files of a million cells: compute ops, with messages, and with a fault in them.

python tests/bench/bench_check.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from measure import PPTRACE, command, compile_package, figure, heading, medians

from pptrace.formats import torch_csv
from pptrace.formats.listings import listing_of
from pptrace.formats.lowering import for_torch, lower
from pptrace.schedules.registry import Params, build

RUNS = 3


def files(folder: Path) -> dict[str, tuple[Path, int]]:
    """What is told of a file; the file and how `check` has to leave."""
    compute, _ = for_torch(listing_of(build("interleaved", Params(32, 8192, 2), max_ops=2_000_000)))
    lowered = lower(for_torch(listing_of(build("1f1b", Params(32, 5600), max_ops=2_000_000)))[0], "early")
    content = {
        "compute ops": torch_csv.write(compute),
        "ops, messages and sharding": torch_csv.write(lowered),
        "compute ops, one backward lost": torch_csv.write(compute).replace(b",5B4000", b"", 1),
        "with messages, one receive lost": torch_csv.write(lowered).replace(b",5RECV_F4000", b"", 1),
    }
    found: dict[str, tuple[Path, int]] = {}
    for what, data in content.items():
        path = folder / f"{len(found)}.csv"
        path.write_bytes(data)
        cells = data.count(b",") + data.count(b"\n")
        found[f"{what} ({cells:,} cells)"] = path, int("lost" in what)
    return found


def main() -> None:
    compile_package()
    with tempfile.TemporaryDirectory() as name:
        found = files(Path(name))
        heading(f"pptrace check FILE, medians of {RUNS} runs in turn")
        taken = medians([command(PPTRACE, "check", str(path), code=code) for path, code in found.values()], runs=RUNS)
    for what, seconds in zip(found, taken, strict=True):
        figure(what, seconds, "s", at_most=10)


if __name__ == "__main__":
    main()
