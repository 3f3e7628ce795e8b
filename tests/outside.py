"""Links to outside in README, the documentation and the lessons: their form and, with a network, their answer."""

import re
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "docs/**/*.md", "assets/lessons/*.toml", "assets/models/*/card.json")
LINK = re.compile(r"https?://[^\s)>\]\"'`|]+")
HERE = ("127.0.0.1", "localhost")
PATIENCE = 20
"""Seconds that a host has to answer."""
ASKS_PEOPLE = (401, 403, 405, 429)
"""Answers of hosts that are there and refuse programs."""


def links() -> dict[str, list[str]]:
    """Each link with the files that it stands in; not those to this machine."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in (path for pattern in PLACES for path in sorted(ROOT.glob(pattern))):
        for link in {one.rstrip(".,;:") for one in LINK.findall(path.read_text(encoding="utf-8"))}:
            if urlsplit(link).hostname not in HERE:
                found[link].append(str(path.relative_to(ROOT)))
    return dict(sorted(found.items()))


def malformed(link: str) -> str:
    """What is wrong with a link as it is written; "" if nothing."""
    parts = urlsplit(link)
    if parts.scheme != "https":
        return "is not https"
    return "" if "." in (parts.hostname or "") else "names no host"


def refused(link: str) -> str | None:
    """Why a link does not lead anywhere, "" if it does, None where its host cannot be reached."""
    request = Request(link, headers={"User-Agent": "Mozilla/5.0 (attnviz, make links)"})
    try:
        with urlopen(request, timeout=PATIENCE):
            return ""
    except HTTPError as error:
        return "" if error.code in ASKS_PEOPLE else f"answers {error.code}"
    except OSError:
        return None


def main() -> int:
    found = links()
    wrong = {link: why for link in found if (why := malformed(link))}
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(found, pool.map(refused, found), strict=True))
    if all(answer is None for answer in answers.values()):
        print(f"No host answers: of {len(found)} links only the form was checked.")
    else:
        wrong |= {link: "cannot be reached" if why is None else why for link, why in answers.items() if why != ""}
    for link, places in found.items():
        print(f"{'WRONG' if link in wrong else 'right'}  {link}  {wrong.get(link, '')}  {', '.join(places)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
