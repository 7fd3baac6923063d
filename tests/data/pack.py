"""Packs a folder with `goldens/` and `inputs/` into goldens.tar.xz: sorted names, no times, so that the bytes never change.

python tests/data/pack.py FOLDER
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("goldens.tar.xz")


def pack(folder: Path) -> None:
    with tarfile.open(ARCHIVE, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.glob("goldens/**/*")) + sorted(folder.glob("inputs/**/*")):
            if path.is_file():
                content = path.read_bytes()
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
