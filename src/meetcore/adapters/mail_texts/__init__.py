"""The texts of mails: English in `letters`, translated by `catalogues`, laid out by `templates/`."""

from meetcore.adapters.mail_texts.letters import TemplateMailTexts

__all__ = ["TemplateMailTexts"]
