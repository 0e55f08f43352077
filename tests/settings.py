"""The settings under test: the product's own, with a secret key that only tests know."""

import os

os.environ.setdefault("FETTLE_SECRET_KEY", "only for tests, " * 3)

from config.settings import *  # noqa: F403 - the whole point
