"""The settings under test: the product's own, with a secret key that only tests know and passwords that cost nothing to check."""

import os

os.environ.setdefault("FETTLE_SECRET_KEY", "only for tests, " * 3)

from config.settings import *  # noqa: F403 - the whole point

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a million rounds for each person of each test take minutes
