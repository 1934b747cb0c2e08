"""`gpuwhy run`: start a program, watch it from outside, and say why its GPU is not doing more."""
