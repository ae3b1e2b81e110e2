"""Links from a page to files of the repository that are no part of the site: the site names the file instead.

On GitHub these links work as they are written, and `tests/test_docs.py` checks that they do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)[^)]*\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Write a link that leaves the documentation as its words and the file's path in the repository."""
    documentation = Path(config["docs_dir"]).resolve()
    folder = (documentation / page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(documentation) or not target.is_file():
            return link[0]
        return f"{link[1]} (`{target.relative_to(documentation.parent)}` in the repository)"

    return _LINK.sub(named, markdown)
