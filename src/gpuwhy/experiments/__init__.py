"""Measurement in pairs: whether two programs or settings differ in speed, and by how much."""
