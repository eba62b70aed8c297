"""Lesson 00: what a DataLoader is made of. Its notebook imports from `dltutor` alone."""
