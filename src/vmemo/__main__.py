"""`python -m vmemo` is the `vmemo` command."""

from __future__ import annotations

from vmemo.cli import main

if __name__ == "__main__":
    main()
