"""The parts of `joins.py`: each measures one thing in a process of its own and checks the answers."""
