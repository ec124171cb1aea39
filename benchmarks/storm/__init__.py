"""The storm: the real loop on a simulated clock, network, disk and world, with faults, and oracles after each step."""
