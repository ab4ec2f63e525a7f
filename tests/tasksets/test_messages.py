"""Content of messages, as received and as stored: texts and pictures, and nothing that would have
to be fetched.
"""

import base64
import io

import pytest
from PIL import Image

from apps.tasksets.messages import (
    BadContent,
    as_texts,
    content_text,
    decode_data_url,
    list_pictures,
    read_content,
)


def png(size: int = 8, colour: str = "red") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (size, size), colour).save(stream, "PNG")
    return stream.getvalue()


def data_url(raw: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"


def shown(url: str, **more) -> dict:
    return {"type": "image_url", "image_url": {"url": url, **more}}


HOW_MANY = {"type": "text", "text": "How many?"}


def test_openai_picture_is_stored_by_its_hash_and_returned():
    taken = {}
    kept = read_content([shown(data_url(png()), detail="low"), HOW_MANY], taken)
    (name,) = taken
    assert kept == [{"type": "image", "picture": name, "width": 8, "height": 8}, HOW_MANY]
    assert (taken[name].sha256, taken[name].width) == (name, 8)


def test_text_is_unchanged_and_text_parts_are_joined():
    assert read_content("hello", {}) == "hello"
    assert read_content([HOW_MANY, HOW_MANY], {}) == "How many?How many?"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "must be text or a list"),
        ([], "1 to 64 parts"),
        ([HOW_MANY] * 65, "1 to 64 parts"),
        (["text"], r"\[0\]: must be a part"),
        ([HOW_MANY, {"type": "audio"}], r"\[1\]: must be a part"),
        ([{**HOW_MANY, "more": 1}], "no other fields"),
        ([{"type": "text", "text": 5}], "must be a part"),
        ([{"type": "image", "picture": "0" * 64}], "must be a part"),
        ([{"type": "image", "path": "a.png"}], r"\[0\].path: a file reference is only allowed"),
        ([{"type": "image_url", "image_url": "http://x/a.png"}], "must be a part"),
        ([shown("http://example.org/a.png")], r"\[0\].image_url.url: .*URLs are not downloaded"),
        ([shown("https://example.org/a.png")], "URLs are not downloaded"),
        ([shown("file:///etc/passwd")], "URLs are not downloaded"),
        ([shown("data:text/html;base64,aGk=")], "URLs are not downloaded"),
        ([shown("data:image/png,abc")], "URLs are not downloaded"),
        ([shown("data:image/png;base64,###")], "is not base64"),
        ([shown("data:image/png;base64,aGVsbG8=")], "not a supported image"),
        ([shown("data:image/svg+xml;base64,PHN2Zy8+")], "not a supported image"),
        ([shown("data:image/png;base64," + "A" * (7 << 20))], "larger than the limit"),
        ([shown(data_url(png()))] * 17, "more than 16 images"),
    ],
)
def test_malformed_content_is_refused_with_its_position(said, reason):
    with pytest.raises(BadContent, match=reason):
        read_content(said, {})


def test_declared_image_type_of_a_data_url_is_ignored():
    assert decode_data_url(data_url(png(), "jpeg")) == png()


def test_pictures_are_numbered_through_the_conversation():
    picture = {"type": "image", "picture": "ab"}
    messages = [
        {"role": "user", "content": [picture, HOW_MANY, picture]},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": [picture]},
    ]
    assert [message["content"] for message in as_texts(messages)] == [
        "[picture 1]\nHow many?\n[picture 2]",
        "2",
        "[picture 3]",
    ]
    assert list_pictures(messages) == ["ab"] * 3
    assert content_text("plain") == "plain"
