"""A SentencePiece vocabulary as the tokenizer.json of Hugging Face's `tokenizers`.

With it transformers needs neither sentencepiece nor protobuf. The steps are those of
its AlbertTokenizer; docs/interchange.md lists where they differ from this project's.
"""

import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from albert_tf.tokenization import tokenizer as tokenizer_lib

FILE = "tokenizer.json"


def build(vocab: bytes, lower_case: bool) -> bytes:
    """The content of the file.

    Args:
      vocab: a serialized SentencePiece unigram model with ALBERT's special pieces.
      lower_case: whether texts are lower-cased.

    Raises:
      ValueError: it is not a unigram model.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(vocab)
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM:
        raise ValueError(
            "the vocabulary must be a unigram model of SentencePiece, as ALBERT's is, "
            "for a tokenizer.json; that of this model is of another kind, so that "
            "nothing can be written"
        )
    native = tokenizer_lib.Tokenizer(vocab)
    tokenizer = tokenizers.Tokenizer(
        models.Unigram(
            [(piece.piece, piece.score) for piece in proto.pieces], native.unk_id, False
        )
    )
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
        normalizers.NFKD(),
        normalizers.StripAccents(),
    ]
    if lower_case:
        steps.append(normalizers.Lowercase())
    charsmap = proto.normalizer_spec.precompiled_charsmap
    if charsmap:
        steps.append(normalizers.Precompiled(charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    cls, sep = tokenizer_lib.CLS, tokenizer_lib.SEP
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, native.cls_id), (sep, native.sep_id)],
    )
    tokenizer.add_special_tokens(
        [
            tokenizers.AddedToken(
                piece,
                special=True,
                normalized=False,
                # It includes the blank before it: "a [MASK]" is two tokens.
                lstrip=piece == tokenizer_lib.MASK,
            )
            for piece in tokenizer_lib.SPECIAL_PIECES
        ]
    )
    return (tokenizer.to_str(pretty=False) + "\n").encode()
