"""`python -m dpsubset.cli`."""

from dpsubset.cli import main

main()
