"""Fast tokenizers for the tiny policies: one of characters, one of words."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD = "<|pad|>"
END = "<|end|>"
UNKNOWN = "<|unknown|>"
PICTURE = "<image>"  # as LLaVA's own processors spell it
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
SPECIAL = (PAD, END, UNKNOWN, *ROLES)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor"
    " %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

# For policies that see: what is said may be a list of parts, texts and pictures.
SEEING_TEMPLATE = CHAT_TEMPLATE.replace(
    "{{ message['content'] }}",
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in"
    " message['content'] %}{% if part['type'] == 'image' %}"
    + PICTURE
    + "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}",
)


def of_characters(alphabet: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are characters; others than the alphabet's are unknown."""
    tokenizer = _word_level(alphabet)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return _fast(tokenizer)


def of_words(vocabulary: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are words and marks.

    Decoding puts the blanks back as English has them.
    """
    tokenizer = _word_level(vocabulary)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"[A-Za-z]+|[^\sA-Za-z]"), behavior="removed", invert=True
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return _fast(tokenizer)


def of_words_and_blanks(vocabulary: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are words, and each blank and mark by itself.

    Decoding gives back the text as it was, so that it suits code.
    """
    tokenizer = _word_level(vocabulary)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"[A-Za-z]+|[^A-Za-z]"), behavior="isolated"
    )
    tokenizer.decoder = decoders.Fuse()
    return _fast(tokenizer)


def _word_level(tokens: str | list[str]) -> Tokenizer:
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*SPECIAL, *tokens]))}
    return Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))


def _fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
