"""The compiled half of `fast_encoder`: words to ids by a unigram model.

A word is what stands between ASCII whitespace. Its ids do not depend on its neighbours,
so they are kept in a table of fixed size, and a word that is not there is cut by
Viterbi's algorithm over a trie of the pieces.

The cut must be SentencePiece's, which adds its scores up in float32 from the start of
the text. Where two cuts of a word score nearly the same, its rounding, and so all that
stands before the word, decides. Such a text is left to SentencePiece. How near is too
near: let u = 2^-24, S a bound of the magnitude of all sums in the text, and m the
characters of the word. Each sum that SentencePiece stores is that of a stored one and a
piece's score, and within 2uS of the largest such sum (one rounding as it is stored,
another one before, if the piece is an unknown character). Along the at most m pieces of
the best cut, what is stored loses at most 2muS against exact sums; along the at most m
pieces of the cut that SentencePiece takes, it gains at most 2muS. So the exact score of
that cut is within 4muS of the best one's, and it is the best one if the second best is
further away. `UNSAFE_RATE` is twice 4u: for S, which is taken from exact sums and not
from rounded ones (they differ by less than an eighth, up to `MAX_CHARACTERS`
characters), and for what float64 and the float32 of the table round.
"""

from typing import NamedTuple

import numpy as np

from albert_tf import compiled

# What a byte is to the kernels. Below SPACE it is part of a word.
PLAIN, SPECIAL, SPACE, END = 0, 1, 2, 3
SEPARATOR = 0xFF  # ends a text; no byte of UTF-8
META_SYMBOL = np.frombuffer("\u2581".encode(), np.uint8)

UNSAFE_RATE = 2.0**-21
MAX_CHARACTERS = 1 << 20
MAX_WORD_SIZE = 256  # bytes, normalized and with the meta symbol
MAX_KEY_SIZE = 23  # bytes; a longer word is not kept in the table
MAX_KEPT_IDS = 7  # nor is one of more ids

# An entry of the table is 64 bytes, the line of a processor's cache:
# three uint64: 23 bytes of the word, zeros behind it, and a byte of its length;
# int32: number of ids + 256 * number of characters; two float32: slack and magnitude;
# seven int32: the ids.
_ENTRY_SIZE = 64
_INFO, _SLACK, _MAGNITUDE, _IDS = 6, 7, 8, 9  # in units of four bytes
_BASE_MASK = (1 << 28) - 1
_LENGTH_SHIFT = np.uint64(56)


class Model(NamedTuple):
    """A unigram model as arrays.

    Attributes:
      byte_kinds: uint8 [256], PLAIN, SPECIAL, SPACE or END.
      lowered: uint8 [256], the byte that stands for a byte: its lower case, or itself.
      units: int64 [num_units], the trie of the pieces, see `double_array.build`.
      scores: float64 [V], scores of the pieces.
      unk_id: id of the unknown piece.
      unk_score: score of an unknown character.
      largest_score: the largest magnitude of any score.
      row_starts: int64 [V + 1], where a piece's row starts in row_ids.
      row_ids: int32 [num_row_ids], the ids that stand for each piece.
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


class Path(NamedTuple):
    """The best cuts of a word, by the byte at which they end.

    Attributes:
      best, second: float64 [num_bytes + 1], scores of the best and second-best cut.
      begins, pieces: int32 [num_bytes + 1], where the last piece of the best cut
        begins, and its id.
    """

    best: np.ndarray
    second: np.ndarray
    begins: np.ndarray
    pieces: np.ndarray


class WordTable(NamedTuple):
    """Three views of one memory; each field of an entry is used through one of them.

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
      positions: int64 [num_words], where each starts in the data; increasing.
      starts: int64 [num_words], where its normalized bytes start.
      sizes: int64 [num_words], how many they are; -1: the text must not go this way.
      data: uint8 [num_bytes], all of the normalized bytes.
    """

    positions: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    data: np.ndarray


def empty_table(num_entries: int) -> WordTable:
    """A table without words; num_entries is a power of two."""
    # 64 bytes more, so that an entry lies on one line of the cache.
    memory = np.zeros((num_entries + 1) * _ENTRY_SIZE, np.uint8)
    start = -memory.ctypes.data % _ENTRY_SIZE
    memory = memory[start : start + num_entries * _ENTRY_SIZE]
    return WordTable(
        *(
            memory.view(dtype).reshape(num_entries, -1)
            for dtype in (np.uint64, np.int32, np.float32)
        )
    )


@compiled.kernel
def _add_edge(begin, end, piece, score, path):
    """Lets the cuts that end at `begin` go on to `end` with a piece."""
    best, second = path.best, path.second
    total = best[begin] + score
    if total > best[end]:
        second[end] = max(best[end], second[begin] + score)
        best[end] = total
        path.begins[end] = begin
        path.pieces[end] = piece
    else:
        second[end] = max(second[end], total)


@compiled.kernel
def cut(word, size, model, path):
    """Viterbi's algorithm, with the score of the second-best cut.

    Args:
      word: uint8, normalized UTF-8, of which the first `size` bytes count.
      size: number of bytes.
      model: Model.
      path: Path, made here.

    Returns:
      (slack, magnitude, num_characters): by how much the best cut of the word is
      better than the second, over the number of characters; the largest magnitude of
      the best scores.
    """
    best, second = path.best, path.second
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
                _add_edge(begin, end + 1, piece, model.scores[piece], path)
        if not is_known:
            _add_edge(begin, begin + step, model.unk_id, model.unk_score, path)
        begin += step
    magnitude = max(magnitude, abs(best[size]))
    slack = (best[size] - second[size]) / max(num_characters, 1)
    return slack, magnitude, num_characters


@compiled.kernel
def _write_ids(size, model, path, ids):
    """Writes the final ids of the cut to `ids`, and returns how many they are."""
    # From back to front: each link leads back.
    num_pieces = 0
    end = size
    while end > 0:
        # Unknown characters in a row are one unknown piece.
        piece = path.pieces[end]
        last = ids[ids.size - num_pieces] if num_pieces else -1
        if piece != last or piece != model.unk_id:
            num_pieces += 1
            ids[ids.size - num_pieces] = piece
        end = path.begins[end]
    num_ids = 0
    for place in range(ids.size - num_pieces, ids.size):
        piece = ids[place]
        for row_place in range(model.row_starts[piece], model.row_starts[piece + 1]):
            ids[num_ids] = model.row_ids[row_place]
            num_ids += 1
    return num_ids


@compiled.kernel
def _read_word(data, position, model):
    """Reads the word that starts at a position.

    Returns:
      (end, is_special, key): where it ends, whether it holds special bytes, and the
      three numbers of its key, which is that of no other word up to MAX_KEY_SIZE bytes.
    """
    start = position
    kinds = np.uint8(0)
    key0, key1, key2 = np.uint64(0), np.uint64(0), np.uint64(0)
    kind = model.byte_kinds[data[position]]
    while kind < SPACE:
        kinds |= kind
        place = position - start
        letter = np.uint64(model.lowered[data[position]])
        letter <<= np.uint64(8 * (place & 7))
        if place < 8:
            key0 |= letter
        elif place < 16:
            key1 |= letter
        elif place < MAX_KEY_SIZE:
            key2 |= letter
        position += 1
        kind = model.byte_kinds[data[position]]
    key2 |= np.uint64(min(position - start, MAX_KEY_SIZE + 1)) << _LENGTH_SHIFT
    return position, kinds != 0, (key0, key1, key2)


@compiled.kernel
def _entry_of(table, key):
    """The entry of a word, and whether the word is in it."""
    mixed = key[0] * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= (key[1] ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= (key[2] ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    entry = np.int64(mixed & np.uint64(table.keys.shape[0] - 1))
    is_there = (
        (table.keys[entry, 0] == key[0])
        & (table.keys[entry, 1] == key[1])
        & (table.keys[entry, 2] == key[2])
    )
    return entry, is_there


@compiled.kernel
def find_special_words(data, model, table):
    """Finds the special words, which cannot be normalized here.

    Args:
      data: uint8 [num_bytes], UTF-8, SEPARATOR behind each text.
      model: Model.
      table: WordTable.

    Returns:
      (num_special, starts, ends): how many there are; int64 [num_words], of those that
      are not in the table, where they start and end.
    """
    starts, ends = [], []
    num_special = position = 0
    while position < data.size:
        if model.byte_kinds[data[position]] == SPECIAL:
            start = position
            while start > 0 and model.byte_kinds[data[start - 1]] < SPACE:
                start -= 1
            position, _, key = _read_word(data, start, model)
            if not _entry_of(table, key)[1]:
                starts.append(start)
                ends.append(position)
            num_special += 1
        position += 1
    return num_special, np.array(starts, np.int64), np.array(ends, np.int64)


@compiled.kernel
def _keep(table, entry, key, ids, choice):
    """Puts a word and what `cut` returned in an entry, in place of what is there."""
    table.keys[entry, 0], table.keys[entry, 1], table.keys[entry, 2] = key
    table.integers[entry, _INFO] = ids.size + 256 * choice[2]
    table.floats[entry, _SLACK] = choice[0]
    table.floats[entry, _MAGNITUDE] = choice[1]
    for place in range(ids.size):
        table.integers[entry, _IDS + place] = ids[place]


@compiled.kernel
def _normalize_plain(data, start, end, model, word):
    """Writes a word without special bytes to `word`, and returns the size, or -1."""
    offset = META_SYMBOL.size
    size = offset + end - start
    if size > MAX_WORD_SIZE:
        return -1
    for place in range(offset):
        word[place] = META_SYMBOL[place]
    for place in range(end - start):
        word[offset + place] = model.lowered[data[start + place]]
    return size


@compiled.kernel
def _normalize_special(normalized, number, start, word):
    """Writes the normalized word that starts there to `word`.

    Returns:
      (size, number): its size, or -1 if it is not to be had; the number of the next of
      the normalized words.
    """
    while number < normalized.positions.size and normalized.positions[number] < start:
        number += 1
    # The table may have lost the word since `find_special_words`.
    if number == normalized.positions.size or normalized.positions[number] != start:
        return -1, number
    size = normalized.sizes[number]
    if size > MAX_WORD_SIZE:
        return -1, number
    for place in range(size):
        word[place] = normalized.data[normalized.starts[number] + place]
    return size, number


@compiled.kernel
def encode(data, model, table, normalized, ids, lengths):
    """Encodes texts.

    Args:
      data: uint8 [num_bytes], UTF-8, SEPARATOR behind each text.
      model: Model.
      table: WordTable, which takes new words in place of old ones.
      normalized: NormalizedWords, those that `find_special_words` found.
      ids: int32, made here: the ids of all texts. Its size must be at least num_bytes
        + MAX_KEPT_IDS for each special word + the size of normalized.data.
      lengths: int64 [num_texts], made here: number of ids of each text; -1, and no ids,
        where rounding may decide or a word cannot be cut here.

    Returns:
      The number of ids.
    """
    path = Path(
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
        entry, is_there = _entry_of(table, key)
        if is_there:
            info = table.integers[entry, _INFO]
            for place in range(info & 255):
                ids[num_ids + place] = table.integers[entry, _IDS + place]
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
        choice = cut(word, size, model, path)
        num_word_ids = _write_ids(size, model, path, word_ids)
        for place in range(num_word_ids):
            ids[num_ids + place] = word_ids[place]
        num_ids += num_word_ids
        slack = min(slack, choice[0])
        magnitude += choice[1]
        num_characters += choice[2]
        if position - start <= MAX_KEY_SIZE and num_word_ids <= MAX_KEPT_IDS:
            _keep(table, entry, key, word_ids[:num_word_ids], choice)
    return num_ids
