"""The exercises: one package for each lesson, and the engine that they share."""
