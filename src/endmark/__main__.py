"""`python -m endmark` is the command line."""

from endmark.faces.cli import main

if __name__ == "__main__":
    main()
