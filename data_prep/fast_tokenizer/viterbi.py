"""Compiled unigram segmentation: words to ids by Viterbi's algorithm.

A word is a run of characters between ASCII whitespace. Its ids do not depend on other
words, so they are cached in a table of fixed size; a word that is not in the table is
segmented by Viterbi's algorithm over a trie of the pieces.

The segmentation must be SentencePiece's, which sums scores in float32 from the start of
the text. If two segmentations of a word have nearly equal scores, rounding decides, and
with it all words before. Such a text is left to SentencePiece. The bound: let
u = 2^-24, S a bound of the magnitude of all sums in the text, and m the number of
characters of the word. Each sum that SentencePiece stores is that of a stored sum and a
piece's score, and within 2uS of the largest such sum (one rounding when it is stored,
another before if the piece is an unknown character). Along the at most m pieces of the
best segmentation, the stored sums lose at most 2muS against exact ones; along the at
most m pieces of SentencePiece's segmentation, they gain at most 2muS. So the exact
score of the latter is within 4muS of the best score, and it is the best one if the
second best is further away. `UNSAFE_RATE` is twice 4u, to allow for S, which is
computed from exact sums and not from rounded ones (they differ by less than an eighth,
up to `MAX_CHARACTERS` characters), and for rounding in float64 and in the float32 of
the table.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.core import numba_cache

# Kinds of bytes. Those below SPACE are part of a word.
PLAIN, SPECIAL, SPACE, END = 0, 1, 2, 3
SEPARATOR = 0xFF  # ends a text; no byte of UTF-8
META_SYMBOL = np.frombuffer("\u2581".encode(), np.uint8)

UNSAFE_RATE = 2.0**-21
MAX_CHARACTERS = 1 << 20
MAX_WORD_SIZE = 256  # bytes, normalized and with the meta symbol
MAX_KEY_SIZE = 23  # bytes; longer words are not cached
MAX_CACHED_IDS = 7  # words of more ids are not cached either

# An entry of the table has 64 bytes, a cache line of the processor:
# three uint64: 23 bytes of the word, padded with zeros, and a byte of its length;
# int32: number of ids + 256 * number of characters; two float32: slack and magnitude;
# seven int32: the ids.
_ENTRY_SIZE = 64
_INFO, _SLACK, _MAGNITUDE, _IDS = 6, 7, 8, 9  # in units of four bytes
_BASE_MASK = (1 << 28) - 1
_LENGTH_SHIFT = np.uint64(56)


class UnigramModel(NamedTuple):
    """A unigram model as arrays.

    Attributes:
      byte_kinds: uint8 [256], PLAIN, SPECIAL, SPACE or END.
      lowered: uint8 [256], the lower case of each byte, or the byte itself.
      units: int64 [num_units], the trie of the pieces, see `double_array_trie.build`.
      scores: float64 [V], scores of the pieces.
      unk_id: id of the unknown piece.
      unk_score: score of an unknown character.
      largest_score: largest magnitude of a score.
      row_starts: int64 [V + 1], start of each piece's ids in `row_ids`.
      row_ids: int32 [num_row_ids], the ids that replace each piece.
    """

    byte_kinds: np.ndarray
    lowered: np.ndarray
    units: np.ndarray
    scores: np.ndarray
    unk_id: int
    unk_score: float
    largest_score: float
    row_starts: np.ndarray
    row_ids: np.ndarray


class Segmentations(NamedTuple):
    """The best segmentations of a word's prefixes, by the prefix's length in bytes.

    Attributes:
      best, second: float64 [num_bytes + 1], scores of the best and the second best.
      begins, pieces: int32 [num_bytes + 1], start and id of the last piece of the best.
    """

    best: np.ndarray
    second: np.ndarray
    begins: np.ndarray
    pieces: np.ndarray


class WordTable(NamedTuple):
    """Three views of one buffer; each field of an entry is accessed through one view.

    Attributes:
      keys: uint64 [num_entries, 8].
      integers: int32 [num_entries, 16].
      floats: float32 [num_entries, 16].
    """

    keys: np.ndarray
    integers: np.ndarray
    floats: np.ndarray


class NormalizedWords(NamedTuple):
    """Special words that are not in the table, normalized by SentencePiece.

    Attributes:
      positions: int64 [num_words], start of each word in the text data; increasing.
      starts: int64 [num_words], start of its normalized bytes in `data`.
      sizes: int64 [num_words], number of these bytes; -1: the tokenizer must encode the
        text.
      data: uint8 [num_bytes], the normalized bytes of all words.
    """

    positions: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    data: np.ndarray


def empty_table(num_entries: int) -> WordTable:
    """Creates an empty table; `num_entries` is a power of two."""
    # 64 bytes more, so that entries can be aligned to cache lines.
    memory = np.zeros((num_entries + 1) * _ENTRY_SIZE, np.uint8)
    start = -memory.ctypes.data % _ENTRY_SIZE
    memory = memory[start : start + num_entries * _ENTRY_SIZE]
    return WordTable(
        *(
            memory.view(dtype).reshape(num_entries, -1)
            for dtype in (np.uint64, np.int32, np.float32)
        )
    )


@numba_cache.kernel
def _add_edge(begin, end, piece, score, found):
    """Extends the segmentations of prefix `begin` by a piece, to prefix `end`."""
    best, second = found.best, found.second
    total = best[begin] + score
    if total > best[end]:
        second[end] = max(best[end], second[begin] + score)
        best[end] = total
        found.begins[end] = begin
        found.pieces[end] = piece
    else:
        second[end] = max(second[end], total)


@numba_cache.kernel
def segment(word, size, model, found):
    """Viterbi's algorithm, with the score of the second-best segmentation.

    Args:
      word: uint8, normalized UTF-8 in the first `size` bytes.
      size: number of bytes.
      model: UnigramModel.
      found: Segmentations, written.

    Returns:
      (slack, magnitude, num_characters): the difference between the scores of the best
      and the second-best segmentation of the word, divided by the number of characters;
      the largest magnitude of the best scores; the number of characters.
    """
    best, second = found.best, found.second
    best[: size + 1] = -np.inf
    second[: size + 1] = -np.inf
    best[0] = 0.0
    units = model.units
    root = units[0] >> 8
    magnitude = 0.0
    num_characters = 0
    begin = 0
    while begin < size:
        lead = word[begin]
        step = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
        num_characters += 1
        magnitude = max(magnitude, abs(best[begin]))
        is_known = False
        base = root
        for end in range(begin, size):
            unit = units[base ^ word[end]]
            if unit & 0xFF != word[end]:
                break
            base = (unit >> 8) & _BASE_MASK
            piece = (unit >> 36) - 1
            if piece >= 0:
                is_known |= end + 1 - begin == step
                _add_edge(begin, end + 1, piece, model.scores[piece], found)
        if not is_known:
            _add_edge(begin, begin + step, model.unk_id, model.unk_score, found)
        begin += step
    magnitude = max(magnitude, abs(best[size]))
    slack = (best[size] - second[size]) / max(num_characters, 1)
    return slack, magnitude, num_characters


@numba_cache.kernel
def _write_ids(size, model, found, ids):
    """Writes the ids of the best segmentation to `ids`; returns their number."""
    # From the end: `begins` links each piece to the one before.
    num_pieces = 0
    end = size
    while end > 0:
        # Consecutive unknown characters are one unknown piece.
        piece = found.pieces[end]
        last = ids[ids.size - num_pieces] if num_pieces else -1
        if piece != last or piece != model.unk_id:
            num_pieces += 1
            ids[ids.size - num_pieces] = piece
        end = found.begins[end]
    num_ids = 0
    for i in range(ids.size - num_pieces, ids.size):
        piece = ids[i]
        for row in range(model.row_starts[piece], model.row_starts[piece + 1]):
            ids[num_ids] = model.row_ids[row]
            num_ids += 1
    return num_ids


@numba_cache.kernel
def _read_word(data, position, model):
    """Reads the word that starts at a position.

    Returns:
      (end, is_special, key): its end; whether it has special bytes; and the three
      numbers of its key, which is unique among words of up to MAX_KEY_SIZE bytes.
    """
    start = position
    kinds = np.uint8(0)
    key0, key1, key2 = np.uint64(0), np.uint64(0), np.uint64(0)
    kind = model.byte_kinds[data[position]]
    while kind < SPACE:
        kinds |= kind
        offset = position - start
        byte = np.uint64(model.lowered[data[position]])
        byte <<= np.uint64(8 * (offset & 7))
        if offset < 8:
            key0 |= byte
        elif offset < 16:
            key1 |= byte
        elif offset < MAX_KEY_SIZE:
            key2 |= byte
        position += 1
        kind = model.byte_kinds[data[position]]
    key2 |= np.uint64(min(position - start, MAX_KEY_SIZE + 1)) << _LENGTH_SHIFT
    return position, kinds != 0, (key0, key1, key2)


@numba_cache.kernel
def _find_entry(table, key):
    """Returns the entry of a word, and whether it holds this word."""
    mixed = key[0] * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= (key[1] ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= (key[2] ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    entry = np.int64(mixed & np.uint64(table.keys.shape[0] - 1))
    is_cached = (
        (table.keys[entry, 0] == key[0])
        & (table.keys[entry, 1] == key[1])
        & (table.keys[entry, 2] == key[2])
    )
    return entry, is_cached


@numba_cache.kernel
def find_special_words(data, model, table):
    """Finds the special words, which SentencePiece must normalize.

    Args:
      data: uint8 [num_bytes], UTF-8, SEPARATOR after each text.
      model: UnigramModel.
      table: WordTable.

    Returns:
      (num_special, starts, ends): their number; int64 [num_words], start and end of
      those that are not in the table.
    """
    starts, ends = [], []
    num_special = position = 0
    while position < data.size:
        if model.byte_kinds[data[position]] == SPECIAL:
            start = position
            while start > 0 and model.byte_kinds[data[start - 1]] < SPACE:
                start -= 1
            position, _, key = _read_word(data, start, model)
            if not _find_entry(table, key)[1]:
                starts.append(start)
                ends.append(position)
            num_special += 1
        position += 1
    return num_special, np.array(starts, np.int64), np.array(ends, np.int64)


@numba_cache.kernel
def _store(table, entry, key, ids, result):
    """Overwrites an entry with a word, its ids and the result of `segment`."""
    table.keys[entry, 0], table.keys[entry, 1], table.keys[entry, 2] = key
    table.integers[entry, _INFO] = ids.size + 256 * result[2]
    table.floats[entry, _SLACK] = result[0]
    table.floats[entry, _MAGNITUDE] = result[1]
    for i in range(ids.size):
        table.integers[entry, _IDS + i] = ids[i]


@numba_cache.kernel
def _normalize_plain(data, start, end, model, word):
    """Writes a word without special bytes to `word`; returns its size, or -1."""
    offset = META_SYMBOL.size
    size = offset + end - start
    if size > MAX_WORD_SIZE:
        return -1
    for i in range(offset):
        word[i] = META_SYMBOL[i]
    for i in range(end - start):
        word[offset + i] = model.lowered[data[start + i]]
    return size


@numba_cache.kernel
def _normalize_special(normalized, number, start, word):
    """Writes the normalized form of the word at `start` to `word`.

    Returns:
      (size, number): its size, or -1 if it is not available; the index of the next
      normalized word.
    """
    while number < normalized.positions.size and normalized.positions[number] < start:
        number += 1
    # The word may have been overwritten in the table since `find_special_words`.
    if number == normalized.positions.size or normalized.positions[number] != start:
        return -1, number
    size = normalized.sizes[number]
    if size > MAX_WORD_SIZE:
        return -1, number
    for i in range(size):
        word[i] = normalized.data[normalized.starts[number] + i]
    return size, number


@numba_cache.kernel
def encode(data, model, table, normalized, ids, lengths):
    """Encodes texts.

    Args:
      data: uint8 [num_bytes], UTF-8, SEPARATOR after each text.
      model: UnigramModel.
      table: WordTable, in which new words overwrite old ones.
      normalized: NormalizedWords, those that `find_special_words` found.
      ids: int32, written: the ids of all texts. Its size must be at least num_bytes
        + MAX_CACHED_IDS for each special word + the size of normalized.data.
      lengths: int64 [num_texts], written: number of ids of each text; -1, and no ids,
        where rounding may decide or a word cannot be segmented here.

    Returns:
      The number of ids.
    """
    found = Segmentations(
        np.empty(MAX_WORD_SIZE + 1, np.float64),
        np.empty(MAX_WORD_SIZE + 1, np.float64),
        np.zeros(MAX_WORD_SIZE + 1, np.int32),
        np.zeros(MAX_WORD_SIZE + 1, np.int32),
    )
    word = np.empty(MAX_WORD_SIZE, np.uint8)
    word_ids = np.empty(2 * MAX_WORD_SIZE, np.int32)
    num_texts = num_ids = text_start = number = position = 0
    slack, magnitude, num_characters = np.inf, model.largest_score, 0
    while position < data.size:
        kind = model.byte_kinds[data[position]]
        if kind == END:
            if slack <= magnitude * UNSAFE_RATE or num_characters > MAX_CHARACTERS:
                num_ids = text_start
                lengths[num_texts] = -1
            else:
                lengths[num_texts] = num_ids - text_start
            num_texts += 1
            text_start = num_ids
            slack, magnitude, num_characters = np.inf, model.largest_score, 0
        if kind >= SPACE:
            position += 1
            continue

        start = position
        position, is_special, key = _read_word(data, start, model)
        entry, is_cached = _find_entry(table, key)
        if is_cached:
            info = table.integers[entry, _INFO]
            for i in range(info & 255):
                ids[num_ids + i] = table.integers[entry, _IDS + i]
            num_ids += info & 255
            num_characters += info >> 8
            slack = min(slack, np.float64(table.floats[entry, _SLACK]))
            magnitude += np.float64(table.floats[entry, _MAGNITUDE])
            continue
        if is_special:
            size, number = _normalize_special(normalized, number, start, word)
        else:
            size = _normalize_plain(data, start, position, model, word)
        if size < 0:
            slack = -1.0
            continue
        result = segment(word, size, model, found)
        num_word_ids = _write_ids(size, model, found, word_ids)
        for i in range(num_word_ids):
            ids[num_ids + i] = word_ids[i]
        num_ids += num_word_ids
        slack = min(slack, result[0])
        magnitude += result[1]
        num_characters += result[2]
        if position - start <= MAX_KEY_SIZE and num_word_ids <= MAX_CACHED_IDS:
            _store(table, entry, key, word_ids[:num_word_ids], result)
    return num_ids
