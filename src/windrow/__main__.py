"""`python -m windrow`."""

from windrow.cli import main

main()
