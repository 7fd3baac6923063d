"""`python -m pptrace`: the same as the command `pptrace`."""

from pptrace.cli import main

if __name__ == "__main__":
    main()
