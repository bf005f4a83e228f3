"""Run the peers' benchmark by itself."""

from benchmarks.peers.run import main

main()
