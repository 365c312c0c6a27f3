"""`python -m dpsubset` is the command."""

from dpsubset.cli import main

if __name__ == "__main__":
    main()
