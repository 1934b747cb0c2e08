"""What would happen if: the dependency graph of a recording, its replay, and changes to it."""
