"""Two reports side by side: what grew, what shrank, and whether that is more than noise."""
