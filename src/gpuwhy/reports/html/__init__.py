"""The report as one HTML file with pictures."""
