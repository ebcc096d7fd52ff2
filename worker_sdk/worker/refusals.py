"""Refused registrations: advice for people, and the time after which a worker gives up."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from worker_sdk.masters.masters import MasterAnswer
from worker_sdk.masters.refusals import TOKEN_ADVICE

# If no master has ever registered the worker, and all refuse its token for this long, the worker ends. A new token
# reaches all masters in less time.
GIVE_UP_S: Final = 30.0
# How long to wait before a repeated complaint is logged again.
REPEAT_S: Final = 60.0


def advice(answer: MasterAnswer, url: str | None, master: str) -> str:
    """Return the remedy for the refusal, with "; " before it. The text is empty if no remedy is known.

    * `url`: the address that the worker wanted to register.
    * `master`: the address of the master that refused.
    """
    if answer.status == 401:
        return f"; {TOKEN_ADVICE}"
    if answer.status == 403:
        return "; the token needs the scope work"
    if answer.code == "address_unverified" and url is not None:
        host = urlsplit(url).hostname or ""
        is_master_here = _is_loopback(urlsplit(master).hostname or "")
        if _is_loopback(host) and is_master_here:
            return ""  # the master can reach this address
        if _is_loopback(host):
            return (
                f"; this worker listens on {host}, which the master at {master} cannot reach: host='0.0.0.0' (or "
                "JQMASTER_WORKER_HOST=0.0.0.0), or pull=True"
            )
        return (
            f"; can the master at {master} reach {url}? Give the worker an address that it can reach (url=…, --url or "
            "JQMASTER_WORKER_URL), or pull=True (--pull)"
        )
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
