from benchmarks.realtables.run import main

main()
