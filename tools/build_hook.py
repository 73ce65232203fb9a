"""Puts prebuilt machine code into the wheel, if `SWITCHMDP_PREBUILT` names its folder.

Without that variable the wheel is pure Python, as are editable installs.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltCode(BuildHookInterface[Any]):
    """Adds `switchmdp/prebuilt`, and tags the wheel with this Python and platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before files are collected."""
        folder = os.environ.get("SWITCHMDP_PREBUILT")
        if folder and version != "editable":
            build_data["force_include"][os.path.abspath(folder)] = "switchmdp/prebuilt"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
