"""``python -m perdix``: the ``perdix`` command."""

from perdix.cli.main import main

if __name__ == "__main__":
    main()
