"""`python -m learndyn` is the command `learndyn`."""

from learndyn.cli import main

if __name__ == "__main__":
    main()
