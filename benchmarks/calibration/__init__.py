"""How far the twins' physics are from what was measured."""
