"""One module a verb: its arguments, and calls into the stages. No analysis here."""
