"""Collect the names that notebook 05 (inherited handles) imports."""

from dltutor.failures.data.records import LENGTH as LENGTH
from dltutor.failures.data.records import SIZE as SIZE
from dltutor.failures.data.records import decode as decode
from dltutor.failures.data.records import open_slowly as open_slowly
from dltutor.failures.data.records import shared_records as shared_records
from dltutor.lessons.lesson_05.helpers import handles as handles
from dltutor.lessons.lesson_05.helpers import recording as recording
from dltutor.lessons.lesson_05.helpers import start_server as start_server
from dltutor.lessons.lesson_05.helpers import told as told
