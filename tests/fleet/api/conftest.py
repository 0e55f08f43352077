"""Callers of the API: Alice may change findings, Bob reads, and somebody nobody knows."""

import pytest
from rest_framework.test import APIClient

from tests.fleet.rows import person, token


def caller(bearer: str) -> APIClient:
    """A program that sends this token."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {bearer}")
    return client


@pytest.fixture
def alice(db: None) -> APIClient:
    """May change findings, with a token that may write."""
    return caller(token(person("alice", changes=True), write=True))


@pytest.fixture
def bob(db: None) -> APIClient:
    """Reads; his token may write, he may not."""
    return caller(token(person("bob"), write=True))


@pytest.fixture
def stranger(db: None) -> APIClient:
    """Shows nothing."""
    return APIClient()
