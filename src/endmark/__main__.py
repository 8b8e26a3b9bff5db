"""`python -m endmark` is the command line."""

from endmark.faces.start import main

if __name__ == "__main__":
    main()
