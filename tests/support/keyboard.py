"""A keyboard at a browser: keys alone move the focus, and each stop of Tab must show it."""

from __future__ import annotations

from attrs import frozen
from playwright.sync_api import CDPSession, Response

from tests.support.chromium import Window

MOST_STOPS = 60
"""How many stops of Tab a control may be away."""

HIDDEN_FOCUS = """() => {
    const at = document.activeElement, {outlineStyle, outlineWidth} = getComputedStyle(at)
    const box = [...at.getClientRects()].find(each => each.width && each.height)
    if (!box) return 'it has no area'
    const middle = (from, to, end) => (Math.max(from, 0) + Math.min(to, end)) / 2
    const x = middle(box.left, box.right, innerWidth), y = middle(box.top, box.bottom, innerHeight)
    if (!at.contains(document.elementFromPoint(x, y))) return 'it is covered or out of sight'
    if (at.matches('[type^=date], [type=time]') && !at.matches(':focus-visible')) return ''
    const isOutlined = outlineStyle === 'auto' || outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2
    return isOutlined ? '' : 'it has no outline'
}"""
"""Why the focus cannot be seen; empty if it can. The browser outlines the button in a date's field itself."""


@frozen
class Focused:
    """The element with the focus, as assistive technology names it."""

    role: str
    name: str


@frozen
class Keyboard:
    """Presses keys at a window."""

    window: Window
    protocol: CDPSession

    def press(self, *keys: str) -> None:
        for key in keys:
            self.window.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.window.page.keyboard.type(text)

    def replace(self, text: str) -> None:
        """Type a text in place of that of the focused field."""
        self.press("Control+a")
        self.type(text)

    def follow(self, key: str = "Enter") -> Response:
        """Press a key that leads to another page; return the page's response."""
        with self.window.page.expect_navigation() as navigation:
            self.press(key)
        response = navigation.value
        assert response is not None
        return response

    def focused(self) -> Focused:
        found = self.protocol.send("Runtime.evaluate", {"expression": "document.activeElement"})
        query = {"objectId": found["result"]["objectId"], "fetchRelatives": False}
        node = self.protocol.send("Accessibility.getPartialAXTree", query)["nodes"][0]
        return Focused(node["role"]["value"], node["name"]["value"].strip())

    def focused_id(self) -> str:
        """Return the id in the document, empty for an element without one."""
        return str(self.window.page.evaluate("document.activeElement.id"))

    def tab(self, key: str = "Tab") -> Focused:
        """Go to the next stop, where the focus must be visible."""
        self.press(key)
        now = self.focused()
        hidden = self.window.page.evaluate(HIDDEN_FOCUS)
        assert hidden == "", f"{now} has an invisible focus: {hidden}"
        return now

    def tab_to(self, name: str, role: str = "", key: str = "Tab") -> None:
        """Go to the next control with a name, and a role if given."""
        passed = []
        for _ in range(MOST_STOPS):
            passed.append(self.tab(key))
            if passed[-1].name == name and role in ("", passed[-1].role):
                return
        raise AssertionError(f"{name!r} is none of {passed}")

    def skip_to_content(self) -> None:
        """Use the skip link, the first stop of a page that was just opened."""
        assert self.tab() == Focused("link", "Skip to the content")
        self.press("Enter")
        assert self.focused_id() == "content"


def keyboard(window: Window) -> Keyboard:
    """Return a keyboard for a window."""
    return Keyboard(window, window.page.context.new_cdp_session(window.page))
