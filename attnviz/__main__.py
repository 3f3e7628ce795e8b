"""``python -m attnviz``: words in, files out."""

import sys

from attnviz.cli import main

if __name__ == "__main__":
    sys.exit(main())
