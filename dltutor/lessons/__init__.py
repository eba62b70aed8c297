"""How it is practised: one package for each lesson, and the kit that they have in common."""
