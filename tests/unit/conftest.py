"""How hard the properties are tried: HYPOTHESIS_PROFILE=long takes minutes and belongs to the night."""

import os

from hypothesis import settings

# No deadline: a loaded machine is no defect of the rules.
settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile("long", max_examples=5_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
