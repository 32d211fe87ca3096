"""`python -m sil` is the `sil` command."""

from sil.cli import main

if __name__ == "__main__":
    main()
