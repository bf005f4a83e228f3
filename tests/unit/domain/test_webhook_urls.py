"""The URL rule (spec 4.3) and its normal form (4.3 rule 2)."""

from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidRequest
from meetcore.domain.webhook_urls import MAX_URL_LENGTH, parse_webhook_url

pytestmark = pytest.mark.spec("4.3/url", "6/1")


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidRequest) as refusal:
        parse_webhook_url(text)
    fields = refusal.value.details["fields"]
    assert isinstance(fields, dict)
    assert list(fields) == ["url"]
    assert fields["url"]
    problems: list[str] = fields["url"]
    return problems


@pytest.mark.spec("4.3/2")
@pytest.mark.parametrize(("text", "normalized"), [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://EXAMPLE.com:443", "https://example.com/"),
    ("https://example.com:/", "https://example.com/"),
    ("https://example.com./", "https://example.com/"),
    ("https://example.com/?", "https://example.com/"),
    ("https://example.com?a=1", "https://example.com/?a=1"),
    ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
    ("https://BÜCHER.example/x", "https://xn--bcher-kva.example/x"),
    ("https://xn--bcher-kva.EXAMPLE/x", "https://xn--bcher-kva.example/x"),
    ("https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/"),
    ("https://example.com/A%2fb/../c//?q=%20&x[]=1", "https://example.com/A%2fb/../c//?q=%20&x[]=1"),
    ("https://8.8.8.8", "https://8.8.8.8/"),
    ("https://8.8.8.8./", "https://8.8.8.8/"),
    ("https://\uff18.8.8.8/", "https://8.8.8.8/"),
    ("https://[2606:4700:0:0::1]:443/h", "https://[2606:4700::1]/h"),
    ("https://localhost/", "https://localhost/"),
])  # fmt: skip
def test_two_spellings_of_one_url_have_one_normal_form(text: str, normalized: str) -> None:
    url = parse_webhook_url(text)
    assert url.text == text
    assert url.normalized == normalized
    assert parse_webhook_url(normalized).normalized == normalized


def test_path_and_query_are_kept_as_they_go_on_the_wire() -> None:
    assert parse_webhook_url("https://h.example/a%2Fb?c=%C3%BC").request_target == "/a%2Fb?c=%C3%BC"
    assert parse_webhook_url("https://h.example?c").request_target == "/?c"


@pytest.mark.parametrize("text", [
    "", "x", "//example.com/", "https:", "https:/example.com", "https://", "https:///path", "https://:443/",
    "http://example.com/", "ftp://example.com/", "https://example.com:80/", "https://example.com:8443/",
    "https://example.com:0443/", "https://example.com:\uff14\uff14\uff13/", "https://example.com:-443/",
    "https://user@example.com/", "https://user:pw@example.com/", "https://@example.com/",
    "https://a@b@example.com/", "https://example.com/#", "https://example.com/#top",
    "https://example.com/a b", " https://example.com/", "https://example.com/\n", "https://exa\tmple.com/",
    "https://example.com/\x00", "https://example.com/\x7f", "https://example.com/\u2028", "https://\xa0/",
    "https://example.com\\@evil.example/", "https://example.com/\\", "https://example.com/\ud800",
    "https://example.com/ü", "https://example.com/%", "https://example.com/%zz", "https://example.com/<x>",
    "https://exa%6dple.com/", "https://a_b.example/", "https://-a.example/", "https://a-.example/",
    "https://a..example/", "https://.example/", "https://./", "https://example.com../",
    f"https://{'a' * 64}.example/", f"https://{'a.' * 126}toolong/", f"https://{'ü' * 63}.example/",
    "https://faß.example/", "https://a\u200db.example/", "https://\U0001f4a9.example/", "https://℀.example/",
    "https://\u00ad/", "https://a.example,b.example/",
    "https://127.1/", "https://0x7f.1/", "https://0x7f000001/", "https://2130706433/", "https://017700000001/",
    "https://127.0.0.01/", "https://256.0.0.1/", "https://1.2.3.4.5/", "https://1.2.3/", "https://x.0x/",
    "https://example.1/", "https://1.2.3.4../",
    "https://[::1/", "https://::1/", "https://[::1]x/", "https://[]/", "https://[1.2.3.4]/", "https://[v1.x]/",
    "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[::1]:80/", "https://[::g]/", "https://[/",
])  # fmt: skip
def test_what_breaks_the_rule_is_refused(text: str) -> None:
    problems_of(text)


def test_every_problem_is_named_at_once() -> None:
    assert len(problems_of("http://user@exa mple:80/%#x")) == 7


def test_the_length_limit_is_in_code_points() -> None:
    base = "https://bücher.example/"
    longest = base + "x" * (MAX_URL_LENGTH - len(base))
    assert parse_webhook_url(longest).text == longest
    assert problems_of(longest + "x")


@pytest.mark.parametrize(("text", "address"), [
    ("https://10.0.0.1/", "10.0.0.1"), ("https://[::ffff:10.0.0.1]/", "::ffff:10.0.0.1"),
    ("https://\uff11\uff12\uff17.0.0.1/", "127.0.0.1"),
    ("https://example.com/", None), ("https://1.2.3.example/", None),
])  # fmt: skip
def test_a_literal_is_known_as_an_address(text: str, address: str | None) -> None:
    assert parse_webhook_url(text).address == (ip_address(address) if address else None)


@given(st.one_of(
    st.text(),
    st.text().map("https://".__add__),
    st.text(alphabet=st.characters(categories=["L", "M", "N", "P", "Cf"])).map("https://{}.example/".format),
    st.text("0123456789abcdefx.:[]%@/\\?#-", max_size=30).map("https://".__add__),
))  # fmt: skip
@example("https://\u3002/")
@example("https://xn--/")
@example("https://xn--99999999/")
def test_any_text_is_a_url_or_an_invalid_request(text: str) -> None:
    try:
        url = parse_webhook_url(text)
    except InvalidRequest:
        return
    assert url.normalized.isascii()
    assert url.normalized.startswith("https://")
    assert url.request_target.startswith("/")
    again = parse_webhook_url(url.normalized)
    assert (again.normalized, again.host, again.address) == (url.normalized, url.host, url.address)
