"""What must hold whatever happens: checked after each step of an episode, and at its end."""
