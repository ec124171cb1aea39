"""The twin of a dataflow: operators, what flows between them, and back-pressure through bounded buffers."""
