"""`python -m switchmdp` is the program `switchmdp`."""

from switchmdp.cli import main

if __name__ == "__main__":
    main()
