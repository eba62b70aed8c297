"""Lesson 00: what a DataLoader is made of. Its notebook only imports from `dltutor`."""
