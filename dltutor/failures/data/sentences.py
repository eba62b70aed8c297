"""Define a dataset of sentences, as tensors of word numbers, and two ways to collate them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

Sample = tuple[torch.Tensor, int]
Listed = tuple[list[torch.Tensor], torch.Tensor]
Packed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_LONGEST = 20
_VOCABULARY = 5000
CLASSES = 4


class Sentences(Dataset[Sample]):
    """A dataset of sentences of 1 to 20 words, each with a class.

    Args:
        length: The number of sentences.
        seed: A different seed gives different sentences (default 0).
    """

    def __init__(self, length: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.offsets = np.cumsum([0, *random.integers(1, _LONGEST + 1, length)])
        self.words = random.integers(0, _VOCABULARY, self.offsets[-1])
        self.labels = random.integers(0, CLASSES, length)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Sample:
        words = self.words[self.offsets[index] : self.offsets[index + 1]]
        return torch.tensor(words), int(self.labels[index])


def as_list(samples: Sequence[Sample]) -> Listed:
    """Collate a batch into one tensor per sentence, and one tensor for all classes."""
    return [words for words, _ in samples], torch.tensor([label for _, label in samples])


def packed(samples: Sequence[Sample]) -> Packed:
    """Collate a batch into one tensor of all words, the offset of each sentence, and the classes.

    `torch.nn.EmbeddingBag` takes the words and offsets as they are, and
    `torch.tensor_split(words, offsets[1:])` returns the sentences without copying them.
    """
    sentences = [words for words, _ in samples]
    lengths = torch.tensor([0, *map(len, sentences[:-1])])
    labels = torch.tensor([label for _, label in samples])
    return torch.cat(sentences), lengths.cumsum(0), labels
