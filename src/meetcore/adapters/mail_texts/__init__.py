"""The texts of mails: English in the code, translated by catalogues, laid out by templates.

- ``letters``: the sentences of each kind of mail
- ``catalogues``: their translations, for `adapters.catalogues`
- ``texts``: plain text and HTML, by the templates of `templates/`
"""

from meetcore.adapters.mail_texts.texts import TemplateMailTexts

__all__ = ["TemplateMailTexts"]
