"""The command line, at a party that has the secret of a simulation: for launchers that start programs of their own."""

from colonnade.cli import main
from colonnade.learn.agreement import SIMULATION_SECRET
from colonnade.run import Run

if __name__ == "__main__":
    Run.secret = SIMULATION_SECRET
    main()
