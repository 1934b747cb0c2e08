"""How well busy time was used: work of operations, ceilings of devices, efficiency."""
