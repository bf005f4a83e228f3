"""A summary in Markdown is rendered, and nothing that it says becomes markup of its own."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.web.markup import render_markdown

TAGS = re.compile(r"</?(?:h[3-6]|ul|ol|li|p|strong|em|code)>|<br>")


@pytest.mark.parametrize(("text", "rendered"), [
    ("", ""),
    ("one\ntwo\n\nthree", "<p>one<br>\ntwo</p>\n<p>three</p>"),
    ("# Rapat\n## Anggaran ##", "<h3>Rapat</h3>\n<h4>Anggaran</h4>"),
    ("###### deep", "<h6>deep</h6>"),
    ("- one\n* two\n\u2022 three", "<ul><li>one</li><li>two</li><li>three</li></ul>"),
    ("1. one\n2) two", "<ol><li>one</li><li>two</li></ol>"),
    (
        "**bold** and *soft* and `a*b*c`",
        "<p><strong>bold</strong> and <em>soft</em> and <code>a*b*c</code></p>",
    ),
    ("2 * 3 * 4, a*b, ** **", "<p>2 * 3 * 4, a*b, <strong> </strong></p>"),
    ("#hashtag -dash", "<p>#hashtag -dash</p>"),
    ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
    ("**<b>** [x](javascript:y)", "<p><strong>&lt;b&gt;</strong> [x](javascript:y)</p>"),
    ("# <img src=x>", "<h3>&lt;img src=x&gt;</h3>"),
    ("{0} {} %s", "<p>{0} {} %s</p>"),
])  # fmt: skip
def test_the_forms_that_are_known_are_rendered(text: str, rendered: str) -> None:
    assert render_markdown(text) == rendered


@given(st.text(alphabet="ab<>&\"'*`#-1. \n\\{}%", max_size=80))
def test_whatever_a_text_says_only_our_own_tags_come_of_it(text: str) -> None:
    rest = TAGS.sub("", render_markdown(text))
    assert "<" not in rest
    assert ">" not in rest


@pytest.mark.parametrize(
    "text", ["**" * 50_000, "*a " * 50_000, "`" * 99_999, "#" * 99_999, " " * 99_999 + "x", "* " * 50_000]
)
def test_a_hostile_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    render_markdown(text)
    assert time.process_time() - began < 5
