"""Collect the names that notebook 02 (transforms that raise) imports."""

from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_02.helpers import VOCABULARY as VOCABULARY
from dltutor.lessons.lesson_02.helpers import Captions as Captions
from dltutor.lessons.lesson_02.helpers import Compose as Compose
from dltutor.lessons.lesson_02.helpers import Require as Require
from dltutor.lessons.lesson_02.helpers import caption_files as caption_files
from dltutor.lessons.lesson_02.helpers import captions_that as captions_that
from dltutor.lessons.lesson_02.helpers import end_of as end_of
from dltutor.lessons.lesson_02.helpers import fates as fates
from dltutor.lessons.lesson_02.helpers import headline as headline
from dltutor.lessons.lesson_02.helpers import loader_of as loader_of
from dltutor.lessons.lesson_02.helpers import two_orders as two_orders
from dltutor.lessons.lesson_02.helpers import without_articles as without_articles
