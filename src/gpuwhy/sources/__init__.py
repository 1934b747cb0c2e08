"""Readers: one module a format, all of them file → `Timeline`."""
