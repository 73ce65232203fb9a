"""Puts prebuilt machine code into the wheel, if `SWITCHMDP_PREBUILT` names its folder.

Without that variable the wheel is pure Python, as are editable installs.

**The platform.** Prebuilt code is used only with the version of Numba that made it. It is linked
with no library: it refers by name to functions of Python and of Numba, and to six functions of the
C library (`exp`, `log`, `log10`, `log1p`, `memcpy`, `memset`). So it runs wherever that version of
Numba runs, and the wheel has the tag of Numba's wheel, for example
`cp311-cp311-manylinux_2_27_x86_64`. Package indexes accept that tag, but not the tag of a machine,
such as `linux_x86_64`. The wheel has the tag of the machine only where Numba was not installed from
a wheel.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltCode(BuildHookInterface[Any]):
    """Adds `switchmdp/prebuilt`, and tags the wheel with the Python and the platform it is for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before files are collected."""
        folder = os.environ.get("SWITCHMDP_PREBUILT")
        if folder and version != "editable":
            build_data["force_include"][os.path.abspath(folder)] = "switchmdp/prebuilt"
            build_data["pure_python"] = False
            tag = tag_of_wheel("numba")
            if tag is None:
                build_data["infer_tag"] = True
            else:
                build_data["tag"] = tag


def tag_of_wheel(package: str) -> str | None:
    """The tag of the wheel that a package was installed from, as in file names; None if unknown."""
    try:
        described = distribution(package).read_text("WHEEL") or ""
    except PackageNotFoundError:
        return None
    lines = (line.partition(": ") for line in described.splitlines())
    tags = [value.strip().split("-") for name, _, value in lines if name == "Tag"]
    if not tags or any(len(tag) != 3 for tag in tags):
        return None
    # Several values of one part are joined by dots: cp311-cp311-manylinux_2_27_x86_64.manylinux_…
    return "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
