"""Collect the names that notebook 01 (corrupt images) imports."""

from dltutor.failures.corrupt_images import Images as Images
from dltutor.failures.none_in_batch import ImagesOrNone as ImagesOrNone
from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_01.helpers import in_a_row as in_a_row
from dltutor.lessons.lesson_01.helpers import last_line as last_line
from dltutor.lessons.lesson_01.helpers import lesson_images as lesson_images
from dltutor.lessons.lesson_01.helpers import loader_of as loader_of
from dltutor.lessons.lesson_01.helpers import looks as looks
from dltutor.lessons.lesson_01.helpers import side_by_side as side_by_side
from dltutor.lessons.lesson_01.transfer import make_readings as make_readings
