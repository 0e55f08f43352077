"""The settings under test: the product's own, with a secret key that only tests know and without what each test would pay for anew."""

import os

os.environ.setdefault("FETTLE_SECRET_KEY", "only for tests, " * 3)
os.environ.setdefault("FETTLE_NOTIFY_ALLOW", "127.0.0.0/8")  # where the tests' chats are

from config.settings import *  # noqa: F403 - the whole point

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a million rounds for each person of each test take minutes
WHITENOISE_AUTOREFRESH = True  # else every client of a test reads all static files for its first request
