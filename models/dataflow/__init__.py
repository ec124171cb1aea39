"""What is learned of a dataflow's operators: their rates, what they need, and how they scale (DS2, OSDI '18)."""
