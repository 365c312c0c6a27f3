"""Run the comparison."""

from benchmarks.realtables.run import main

main()
