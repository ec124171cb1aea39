"""How many of something there are, in words."""


def counted(number: int, what: str) -> str:
    """Return ``1 run``, ``6 runs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
