"""The URL rule (spec 4.3) and its normal form (rule 4.3/2)."""

from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidRequest
from meetcore.domain.webhooks.urls import MAX_URL_LENGTH, parse_webhook_url
from meetcore.testing.strategies.webhooks import webhook_urls

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
def test_invalid_urls_are_refused(text: str) -> None:
    problems_of(text)


SCHEME = "must begin with https://"
FRAGMENT = "must not have a fragment (#...)"
TARGET = "must percent-encode, as %XX, what a URI cannot carry in its path and query"
CHARACTERS = "must not contain white space, control characters or lone surrogates"
BACKSLASH = "must not contain a backslash"
NO_HOST = "must name a host"
USER = "must not contain user information (user:password@)"
PORT = "must use port 443"
NAME = "must have a valid host name (labels of 1 to 63 letters, digits and hyphens)"
NAME_LENGTH = "must have a host name of at most 253 characters"
IPV4 = "must write an IPv4 address as four decimal numbers"
IPV6 = "must have a valid IPv6 address, without a zone, in its brackets"
AMBIGUOUS = "must write each part of the host that IDNA versions disagree on as xn--..."
IDNA = "must have a host name that IDNA can encode"


@pytest.mark.parametrize(("text", "problems"), [
    ("http://example.com/", [SCHEME]),
    ("//example.com/", [SCHEME]),
    ("https://example.com/#", [FRAGMENT]),
    ("https://example.com/%zz", [TARGET]),
    ("https://example.com/?<", [TARGET]),
    ("https://example.com/a b", [CHARACTERS, TARGET]),
    ("https://example.com\\@evil.example/", [BACKSLASH, USER]),
    ("https:", [NO_HOST]),
    ("https://:443/", [NO_HOST]),
    ("https://user@example.com/", [USER]),
    ("https://@example.com/", [USER]),
    ("https://example.com:80/", [PORT]),
    ("https://[::1]:80/", [PORT]),
    ("https://[1.2.3.4]/", [IPV6]),
    ("https://[::1]x/", [IPV6]),
    ("https://[]x/", [IPV6]),
    ("https://[fe80::1%25eth0]/", [IPV6]),
    ("https://[::g]/", [IPV6]),
    ("https://1.2.3/", [IPV4]),
    ("https://-a.example/", [NAME]),
    ("https://a..example/", [NAME]),
    (f"https://{'a' * 64}.example/", [NAME]),
    ("https://fa\u00df.example/", [AMBIGUOUS]),
    ("https://\u2100.example/", [NAME]),
    (f"https://{chr(0xFC) * 63}.example/", [IDNA]),
    # Every problem is named at once.
    ("http://user@exa mple:80/%#x", [CHARACTERS, SCHEME, FRAGMENT, TARGET, USER, PORT, NAME]),
    ("ftp:\\\\", [BACKSLASH, SCHEME, TARGET, NO_HOST]),
    ("https://u@[::1]:80/", [USER, PORT]),
])  # fmt: skip
def test_each_problem_is_named_and_all_at_once(text: str, problems: list[str]) -> None:
    assert problems_of(text) == problems


def test_a_host_name_has_253_characters_at_most() -> None:
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert parse_webhook_url(f"https://{longest}/").host == longest
    assert parse_webhook_url(f"https://{longest}./").host == longest
    assert problems_of(f"https://{longest}d/") == [NAME_LENGTH]


@pytest.mark.spec("4.3/2")
@given(webhook_urls())
def test_a_url_that_keeps_the_rule_keeps_its_meaning_in_its_normal_form(text: str) -> None:
    url = parse_webhook_url(text)
    again = parse_webhook_url(url.normalized)
    assert url.text == text
    assert url.normalized.isascii()
    assert (again.normalized, again.host, again.request_target) == (
        url.normalized,
        url.host,
        url.request_target,
    )
    # Path and query are kept byte for byte, but for the slash that stands for none and the `?` before none.
    _, _, after_scheme = text.partition("://")
    given_target = after_scheme[len(after_scheme.split("/")[0].split("?")[0]) :]
    assert url.request_target.lstrip("/").rstrip("?") == given_target.lstrip("/").rstrip("?")


def test_the_length_limit_is_in_code_points() -> None:
    base = "https://bücher.example/"
    longest = base + "x" * (MAX_URL_LENGTH - len(base))
    assert parse_webhook_url(longest).text == longest
    assert problems_of(longest + "x") == ["must be at most 1000 characters long"]
    assert problems_of(longest + "\n") == [CHARACTERS, "must be at most 1000 characters long"]


@pytest.mark.parametrize(("text", "address"), [
    ("https://10.0.0.1/", "10.0.0.1"), ("https://[::ffff:10.0.0.1]/", "::ffff:10.0.0.1"),
    ("https://\uff11\uff12\uff17.0.0.1/", "127.0.0.1"),
    ("https://example.com/", None), ("https://1.2.3.example/", None),
])  # fmt: skip
def test_an_address_literal_is_recognised(text: str, address: str | None) -> None:
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
