"""Names and addresses of hosts in settings: what a resolver can be asked at all."""

import ipaddress
import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
_ZONE: Final = re.compile(r"[A-Za-z0-9._-]{1,40}")


def is_host(text: str) -> bool:
    """True for a name or an address, of version 6 without brackets; a resolver raises at others, as at labels that are empty or too long."""
    if ":" in text:
        try:
            return isinstance(ipaddress.ip_address(text), ipaddress.IPv6Address) and "%" not in text
        except ValueError:
            return False
    if not _NAME.fullmatch(text):
        return False
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def is_host_here(text: str) -> bool:
    """The same, with the zone that an address of one link needs (`fe80::1%eth0`)."""
    address, percent, zone = text.partition("%")
    return is_host(address) and (not percent or (":" in address and _ZONE.fullmatch(zone) is not None))
