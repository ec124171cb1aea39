"""The least that any plan could need, known only to who sees the future."""
