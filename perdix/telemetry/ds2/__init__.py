"""Files of the original DS2 program: topologies, logged rates, what sources should emit."""
