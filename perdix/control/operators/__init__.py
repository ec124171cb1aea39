"""The live loop that sizes the operators of a running dataflow."""
