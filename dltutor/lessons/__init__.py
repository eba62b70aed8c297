"""Define the exercises. Each lesson has its own package, and all lessons use `engine`."""
