"""Import what job D's workers need, and fill the holes in the heap, in the fork server.

A worker inherits the server's heap. Importing leaves holes in the heap, and sometimes they have
enough room to hide that D's workers grow. Measured with 400 holes that we made on purpose: 3 of 16
runs grew half as much or less, and none of 28 did after the holes were filled.
"""

from dltutor.lessons.lesson_10 import helpers as helpers
from dltutor.system.heap import fill_holes

fill_holes()
