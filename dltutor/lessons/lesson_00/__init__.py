"""Lesson 00: what a DataLoader is made of. The notebook imports only from `dltutor`."""
