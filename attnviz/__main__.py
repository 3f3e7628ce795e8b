"""``python -m attnviz``: the command line."""

import sys

if __name__ == "__main__":
    try:
        from attnviz.cli import main

        sys.exit(main())
    except ModuleNotFoundError as error:  # a dependency is missing, so attnviz.core.errors may not be importable
        if str(error.name).startswith("attnviz"):
            raise
        sys.stderr.write(
            f"attnviz: The Python that runs this, {sys.executable}, has no '{error.name}'. "
            "Give the command to .venv/bin/python, which 'make run' fills, or first run: pip install .\n"
        )
        sys.exit(2)
