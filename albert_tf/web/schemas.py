"""What the endpoints take and give, with limits and examples, as pydantic models."""

import abc
from typing import Annotated, Any, NamedTuple

import pydantic

from albert_tf import saved_models, tokenization
from albert_tf.web import settings

_SENTENCE = "The river runs [MASK] the city."
_STORY = "The river runs through the old city and past a mill."


def _with_masks(text: str) -> str:
    saved_models.check_mask(text)
    count = text.count(tokenization.MASK)
    if count > settings.MAX_MASKS:
        raise ValueError(
            f"each text may hold at most {settings.MAX_MASKS} {tokenization.MASK}; "
            f"received {count}. Send its parts as texts"
        )
    return text


_A_LIST = pydantic.Field(min_length=1, max_length=settings.MAX_TEXTS)
Text = Annotated[str, pydantic.Field(max_length=settings.MAX_CHARACTERS)]
MaskedText = Annotated[
    Text,
    pydantic.AfterValidator(_with_masks),
    pydantic.Field(description=f"Holds 1 to {settings.MAX_MASKS} {tokenization.MASK}."),
]
Probability = Annotated[float, pydantic.Field(examples=[0.25])]


class _Strict(pydantic.BaseModel):
    """Nothing unknown is passed over, and nothing turned into another type."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class Request(_Strict, abc.ABC):
    """The body of a request."""

    @abc.abstractmethod
    def items(self) -> list[Any]:
        """The items that web.model's function of the endpoint takes."""


def _example(**values: Any) -> pydantic.ConfigDict:
    return pydantic.ConfigDict(json_schema_extra={"examples": [values]})


# ---- Requests ----


class FillMaskRequest(Request):
    """Texts with [MASK] in them."""

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
    """A text, or two for a model that learnt from pairs."""

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
    """A question on a text."""

    question: Text
    context: Text


class AnswerRequest(Request):
    """Questions on texts."""

    model_config = _example(examples=[{"question": "What runs?", "context": _STORY}])

    examples: Annotated[list[Question], _A_LIST]

    def items(self) -> list[Any]:
        """Questions and contexts."""
        return [(example.question, example.context) for example in self.examples]


class ChoiceQuestion(Question):
    """A question on a text, with answers to choose from."""

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


# ---- Answers, in the order of what was asked ----


class Candidate(pydantic.BaseModel):
    """A piece for a [MASK]."""

    token: str = pydantic.Field(description="Where it begins a word, ▁ stands first.")
    probability: Probability


class FilledText(pydantic.BaseModel):
    """A text, and for each of its [MASK] the candidates, best first."""

    text: str
    masks: list[list[Candidate]]


class FillMaskResponse(pydantic.BaseModel):
    """Candidates for each text."""

    answers: list[FilledText]


class Embedding(pydantic.BaseModel):
    """A text as a vector."""

    text: str
    num_tokens: int = pydantic.Field(description="With [CLS] and [SEP].")
    pooled_output: list[float] = pydantic.Field(description="hidden_size numbers.")


class EmbeddingsResponse(pydantic.BaseModel):
    """A vector for each text."""

    answers: list[Embedding]


class PairOrder(pydantic.BaseModel):
    """How likely a pair stands in order."""

    first: str
    second: str
    probability: Probability


class SentenceOrderResponse(pydantic.BaseModel):
    """A probability for each pair."""

    answers: list[PairOrder]


class Classified(pydantic.BaseModel):
    """The class of a text, or its number where the model gives numbers."""

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
    """A class or a number for each text."""

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


class Answer(pydantic.BaseModel):
    """A part of the context; empty, with `start` -1, where there is no answer."""

    question: str
    context: str
    answer: str
    start: int = pydantic.Field(description="Code points of the context.")
    end: int
    probability: Probability
    null_odds: float | None = pydantic.Field(
        None, description="Nats by which no answer is likelier than this one."
    )


class AnswerResponse(pydantic.BaseModel):
    """An answer for each question."""

    answers: list[Answer]


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


class ModelResponse(pydantic.BaseModel):
    """What the model can be asked; nothing while it is being loaded."""

    status: str = pydantic.Field(description='"ready" or "not ready".')
    endpoints: list[str] = pydantic.Field(description="Their names, below /v1/.")


class ErrorResponse(pydantic.BaseModel):
    """What was wrong: the rule, what was received, how to mend it."""

    error: str


# ---- Which is which ----


class Endpoint(NamedTuple):
    """Where something is asked, and the signature that answers it."""

    name: str
    signature: str
    summary: str
    request: type[Request]
    response: type[pydantic.BaseModel]

    @property
    def path(self) -> str:
        """Where it is."""
        return f"/v1/{self.name}"


ENDPOINTS = (
    Endpoint(
        "fill-mask",
        "fill_mask",
        "The likeliest pieces for each [MASK].",
        FillMaskRequest,
        FillMaskResponse,
    ),
    Endpoint(
        "embeddings",
        "encode",
        "A vector for each text.",
        TextsRequest,
        EmbeddingsResponse,
    ),
    Endpoint(
        "sentence-order",
        "sentence_order",
        "How likely the second text follows the first, and not the reverse.",
        SentenceOrderRequest,
        SentenceOrderResponse,
    ),
    Endpoint(
        "classify",
        "classify",
        "The class of each text, or its number.",
        ClassifyRequest,
        ClassifyResponse,
    ),
    Endpoint("tag", "tag", "A label for each word.", TextsRequest, TagResponse),
    Endpoint(
        "answer",
        "answer",
        "The part of a text that answers a question on it.",
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
