"""Requests and responses of the endpoints as pydantic models, with limits."""

import abc
from typing import Annotated, Any, Literal, NamedTuple

import pydantic

from albert_tf.inference import saved_model
from albert_tf.tokenization import tokenizer
from albert_tf.web import settings

_SENTENCE = "The river runs [MASK] the city."
_STORY = "The river runs through the old city and past a mill."


def _with_masks(text: str) -> str:
    saved_model.check_mask(text)
    count = text.count(tokenizer.MASK)
    if count > settings.MAX_MASKS:
        raise ValueError(
            f"each text may hold at most {settings.MAX_MASKS} {tokenizer.MASK}; "
            f"received {count}. Split it into several texts"
        )
    return text


_A_LIST = pydantic.Field(min_length=1, max_length=settings.MAX_TEXTS)
Text = Annotated[str, pydantic.Field(max_length=settings.MAX_CHARACTERS)]
MaskedText = Annotated[
    Text,
    pydantic.AfterValidator(_with_masks),
    pydantic.Field(description=f"Holds 1 to {settings.MAX_MASKS} {tokenizer.MASK}."),
]
Probability = Annotated[float, pydantic.Field(examples=[0.25])]


class _Strict(pydantic.BaseModel):
    """A model that refuses unknown fields and does not convert types."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class Request(_Strict, abc.ABC):
    """The body of a request."""

    @abc.abstractmethod
    def items(self) -> list[Any]:
        """The items for web.model's function of the endpoint."""


def _example(**values: Any) -> pydantic.ConfigDict:
    return pydantic.ConfigDict(json_schema_extra={"examples": [values]})


# ---- Requests ----


class FillMaskRequest(Request):
    """Texts with [MASK]."""

    model_config = _example(texts=[_SENTENCE], top_k=3)

    texts: Annotated[list[MaskedText], _A_LIST]
    top_k: int = pydantic.Field(
        5, ge=1, le=settings.MAX_TOP_K, description="Candidates for each [MASK]."
    )

    def items(self) -> list[Any]:
        """Texts, each with `top_k`."""
        return [(text, self.top_k) for text in self.texts]


class TextsRequest(Request):
    """Texts."""

    model_config = _example(texts=[_STORY])

    texts: Annotated[list[Text], _A_LIST]

    def items(self) -> list[Any]:
        """Texts."""
        return [(text,) for text in self.texts]


class EmbeddingsRequest(TextsRequest):
    """Texts, and how the vectors of their tokens become one."""

    pooling: Literal["pooled", "mean"] = pydantic.Field(
        "pooled",
        description="Of [CLS], trained on sentence order, or the mean of all tokens.",
    )

    def items(self) -> list[Any]:
        """Texts, each with the pooling unless that is the default."""
        chosen = () if self.pooling == "pooled" else (self.pooling,)
        return [(text, *chosen) for text in self.texts]


class Pair(_Strict):
    """Two texts."""

    first: Text
    second: Text


class SentenceOrderRequest(Request):
    """Pairs of texts."""

    model_config = _example(
        pairs=[{"first": "It rained.", "second": "So the river rose."}]
    )

    pairs: Annotated[list[Pair], _A_LIST]

    def items(self) -> list[Any]:
        """First and second texts."""
        return [(pair.first, pair.second) for pair in self.pairs]


class TextOrPair(_Strict):
    """A text, or a pair for a model that was trained on pairs."""

    text: Text
    pair: Text | None = pydantic.Field(None, description="The second of a pair.")


class ClassifyRequest(Request):
    """Texts or pairs of texts."""

    model_config = _example(examples=[{"text": _STORY}])

    examples: Annotated[list[TextOrPair], _A_LIST]

    def items(self) -> list[Any]:
        """Texts, and the second ones of pairs."""
        return [
            (example.text, *([] if example.pair is None else [example.pair]))
            for example in self.examples
        ]


class Question(_Strict):
    """A question about a text."""

    question: Text
    context: Text


class AnswerRequest(Request):
    """Questions about texts."""

    model_config = _example(examples=[{"question": "What runs?", "context": _STORY}])

    examples: Annotated[list[Question], _A_LIST]

    def items(self) -> list[Any]:
        """Questions and contexts."""
        return [(example.question, example.context) for example in self.examples]


class ChoiceQuestion(Question):
    """A question about a text, with answers to choose from."""

    options: Annotated[
        list[Text], pydantic.Field(min_length=2, max_length=settings.MAX_OPTIONS)
    ]


class ChooseRequest(Request):
    """Questions with options."""

    model_config = _example(
        examples=[
            {
                "question": "Where does the river run?",
                "context": _STORY,
                "options": ["through the city", "into a lake"],
            }
        ]
    )

    examples: Annotated[list[ChoiceQuestion], _A_LIST]

    def items(self) -> list[Any]:
        """Contexts, questions and options."""
        return [
            (example.context, example.question, *example.options)
            for example in self.examples
        ]


# ---- Responses, in the order of the request ----


class MaskCandidate(pydantic.BaseModel):
    """A token for a [MASK]."""

    token: str = pydantic.Field(description="Starts with ▁ at the start of a word.")
    probability: Probability


class FilledText(pydantic.BaseModel):
    """A text and the candidates for each of its [MASK], best first."""

    text: str
    masks: list[list[MaskCandidate]]


class FillMaskResponse(pydantic.BaseModel):
    """Candidates for each text."""

    answers: list[FilledText]


class Embedding(pydantic.BaseModel):
    """A text as a vector."""

    text: str
    num_tokens: int = pydantic.Field(description="With [CLS] and [SEP].")
    pooled_output: list[float] | None = pydantic.Field(
        None, description="hidden_size numbers."
    )
    mean_output: list[float] | None = pydantic.Field(
        None, description='hidden_size numbers, for the pooling "mean".'
    )


class EmbeddingsResponse(pydantic.BaseModel):
    """A vector for each text."""

    answers: list[Embedding]


class PairOrder(pydantic.BaseModel):
    """The probability that a pair is in order."""

    first: str
    second: str
    probability: Probability


class SentenceOrderResponse(pydantic.BaseModel):
    """A probability for each pair."""

    answers: list[PairOrder]


class Classified(pydantic.BaseModel):
    """The class of a text, or its score if the model is a regression."""

    text: str
    pair: str | None = None
    label: str | None = None
    probability: Probability | None = None
    probabilities: dict[str, float] | None = pydantic.Field(
        None, description="Of all labels."
    )
    score: float | None = pydantic.Field(
        None, description="In the unit of the training examples."
    )


class ClassifyResponse(pydantic.BaseModel):
    """A class or a score for each text."""

    answers: list[Classified]


class Word(pydantic.BaseModel):
    """A word and its label; `start` and `end` count code points of the text."""

    word: str
    start: int
    end: int
    label: str
    probability: Probability


class TaggedText(pydantic.BaseModel):
    """A text and its words."""

    text: str
    words: list[Word]


class TagResponse(pydantic.BaseModel):
    """Words for each text."""

    answers: list[TaggedText]


class ExtractedAnswer(pydantic.BaseModel):
    """A span of the context; empty, with `start` -1, if there is no answer."""

    question: str
    context: str
    answer: str
    start: int = pydantic.Field(description="In code points of the context.")
    end: int
    probability: Probability
    null_odds: float | None = pydantic.Field(
        None, description="Log odds, in nats, of no answer against this one."
    )


class AnswerResponse(pydantic.BaseModel):
    """An answer for each question."""

    answers: list[ExtractedAnswer]


class Choice(pydantic.BaseModel):
    """The best option."""

    question: str
    context: str
    options: list[str]
    choice: int = pydantic.Field(description="Its number, from 0.")
    answer: str
    probabilities: list[float]


class ChooseResponse(pydantic.BaseModel):
    """A choice for each question."""

    answers: list[Choice]


class ModelDescription(pydantic.BaseModel):
    """What the model is; fields are empty if its export recorded none."""

    name: str = pydantic.Field(description="Of the run, or of the directory.")
    task: str = pydantic.Field(description='Such as "MRPC", or "pre-training".')
    checkpoint: str
    date: str = pydantic.Field(description="Of the export.")
    versions: dict[str, str] = pydantic.Field(description="That exported it.")


class ModelResponse(pydantic.BaseModel):
    """The model and its endpoints; none while it is being loaded."""

    model: ModelDescription

    status: str = pydantic.Field(description='"ready" or "not ready".')
    endpoints: list[str] = pydantic.Field(description="Their names, below /v1/.")


class ErrorResponse(pydantic.BaseModel):
    """The rule, what was received, and how to fix it."""

    error: str


# ---- Endpoints ----


class Endpoint(NamedTuple):
    """An endpoint, and the signature that answers it."""

    name: str
    signature: str
    summary: str
    request: type[Request]
    response: type[pydantic.BaseModel]

    @property
    def path(self) -> str:
        """Its path."""
        return f"/v1/{self.name}"


ENDPOINTS = (
    Endpoint(
        "fill-mask",
        "fill_mask",
        "The most likely tokens for each [MASK].",
        FillMaskRequest,
        FillMaskResponse,
    ),
    Endpoint(
        "embeddings",
        "encode",
        "A vector for each text.",
        EmbeddingsRequest,
        EmbeddingsResponse,
    ),
    Endpoint(
        "sentence-order",
        "sentence_order",
        "The probability that the second text follows the first.",
        SentenceOrderRequest,
        SentenceOrderResponse,
    ),
    Endpoint(
        "classify",
        "classify",
        "The class of each text, or its score.",
        ClassifyRequest,
        ClassifyResponse,
    ),
    Endpoint("tag", "tag", "A label for each word.", TextsRequest, TagResponse),
    Endpoint(
        "answer",
        "answer",
        "The span of a text that answers a question.",
        AnswerRequest,
        AnswerResponse,
    ),
    Endpoint(
        "choose",
        "choose",
        "The best of several options.",
        ChooseRequest,
        ChooseResponse,
    ),
)
