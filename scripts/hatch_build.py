"""What scripts/release adds to a package: compiled libraries, and the addresses of the project's pages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class LibrariesHook(BuildHookInterface[Any]):
    """Turns the wheel into one for a platform.

    ``ASCEND_ACLNN_LIBRARIES`` is a directory laid out as the package, with the libraries; ``ASCEND_ACLNN_PLATFORM`` the tag.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        libraries = os.environ.get("ASCEND_ACLNN_LIBRARIES")
        if not libraries or version == "editable":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['ASCEND_ACLNN_PLATFORM']}"
        build_data["force_include"][libraries] = "ascend_aclnn"


class AddressesHook(MetadataHookInterface):
    """Project URLs, and absolute links in the README; without ``ASCEND_ACLNN_HOMEPAGE`` links stay relative."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        home = os.environ.get("ASCEND_ACLNN_HOMEPAGE", "").rstrip("/")
        urls = {"CANN documentation": "https://www.hiascend.com/document"}
        if home:
            pages = f"{home}/blob/v{metadata['version']}/" if "version" in metadata else f"{home}/blob/main/"
            text = re.sub(r"\]\((?!\w+:)([^)#]+)", lambda match: f"]({pages}{match[1]}", text)
            urls.update(
                Homepage=home, Issues=f"{home}/issues", Changelog=f"{pages}CHANGELOG.md", Documentation=f"{pages}docs"
            )
        metadata["urls"] = urls
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
