"""Reports: one module a format, all built from one `Report`."""
