"""`python -m colonnade.cli`: the same as the `colonnade` script."""

from colonnade.cli import main

main()
