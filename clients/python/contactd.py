"""A client of contactd, the contact lookup service. One file that needs nothing but Python 3.10.

    from contactd import Client

    with Client("https://contacts.example.com", token) as client:
        phone = client.fetch_phone_number("https://www.linkedin.com/in/ada-quell-1a2b3c")
        print(phone.phone_number if phone else "nothing on file")

- **Nothing on file** is `None`, not an error.
- **Repeats.** What may pass is tried again: 429 and 503 after the time that the service names, a failed connection, a timeout and an
  error of the service after growing pauses. A lookup changes nothing, so a repeat does no harm, but it is on record by itself: if an
  answer was lost on its way, a repeat can be a second line in the service's journal and a second unit of the token's quota. All tries
  of a request have the same `X-Request-Id`.
- **Errors** are subclasses of `ContactdError`. Their texts are short and name nobody, so that they can be logged. What the service
  says is in `message`; it can contain the profile URL. What was found prints no number and no address either.
- **Threads.** Any number of them may use one `Client`, also at the same time: each request has a connection of its own meanwhile. Make
  a new `Client` in a process that was forked. Take several batches at the same time by calling `batch` in several threads.
- Environment variables for proxies are not read, and redirects are not followed.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import random
import ssl
import time
import urllib.parse
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

__version__ = "0.1.0"
__all__ = [
    "Client", "ConnectionFailed", "ContactdError", "EmailFound", "InvalidProfileUrl", "Lookup", "PhoneFound", "QuotaExceeded",
    "RateLimited", "Result", "ServiceError", "Unauthorized", "UnexpectedAnswer",
]

Operation = Literal["fetchPhoneNumber", "fetchPersonalEmail"]

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds between tries, unless the service names a time
MOST_BYTES = 200 * 1024  # of lookups in a batch that has several


@dataclass(frozen=True, slots=True)
class PhoneFound:
    """A phone number, such as `+14155550123`, and the canonical form of the profile URL."""

    phone_number: str = field(repr=False)
    profile_url: str = field(repr=False)

    @property
    def value(self) -> str:
        """The phone number."""
        return self.phone_number


@dataclass(frozen=True, slots=True)
class EmailFound:
    """An e-mail address, and the canonical form of the profile URL."""

    email: str = field(repr=False)
    profile_url: str = field(repr=False)

    @property
    def value(self) -> str:
        """The e-mail address."""
        return self.email


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a batch asks: `fetchPhoneNumber` or `fetchPersonalEmail` for a profile URL."""

    operation: Operation
    profile_url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a lookup of a batch. If nothing is on file, both `found` and `error` are None."""

    lookup: Lookup
    found: PhoneFound | EmailFound | None = None
    error: ContactdError | None = None


class ContactdError(Exception):
    """A lookup was not answered. The subclass says why."""

    def __init__(self, answer: _Answer) -> None:
        self.http_status = answer.http_status
        """The HTTP status, 0 if there was no answer."""
        self.status = answer.text("status")
        """The code of the service, such as `rate_limited`; a 500 has none."""
        self.message = answer.text("message")
        """What the service says. It can contain the profile URL."""
        self.reason = answer.reason
        """Why exactly: for InvalidProfileUrl and Unauthorized."""
        self.retry_after = answer.retry_after
        """After how many seconds it may be tried again, if the service says so."""
        self.request_id = answer.request_id
        """By this, the operator finds the request."""
        what = f"{self.http_status} {self.status or ''}".rstrip() if self.http_status else "no answer"
        super().__init__(f"{what}{f' ({self.reason})' if self.reason else ''}, request {self.request_id}")


class InvalidProfileUrl(ContactdError):
    """The service does not take the profile URL. `reason` is one of the codes of docs/api.md, such as `not_person`."""


class Unauthorized(ContactdError):
    """The token is unknown, expired, revoked, or not for this operation: `reason` says which, where the service does."""


class QuotaExceeded(ContactdError):
    """The quota of the token is used up for longer than `max_wait`."""


class RateLimited(ContactdError):
    """The rate of the token was used up in every try, or for longer than `max_wait`."""


class ServiceError(ContactdError):
    """The service, or a proxy before it, failed or was busy in every try."""


class ConnectionFailed(ServiceError):
    """No try was answered. The cause is in `__cause__`."""


class UnexpectedAnswer(ContactdError):
    """An answer that no repeat changes: a wrong address, something that is not contactd, a request that is too large."""


@dataclass(slots=True)
class _Answer:
    """An answer of the service, or one result of a batch."""

    http_status: int
    body: Any
    request_id: str
    reason: str | None = None
    retry_after: float | None = None
    cause: Exception | None = None

    def text(self, name: str) -> str | None:
        value = self.body.get(name) if isinstance(self.body, dict) else None
        return value if isinstance(value, str) else None

    def may_pass(self) -> bool:
        if isinstance(self.cause, ssl.SSLCertVerificationError):
            return False
        return self.http_status in (0, 408, 429, 500, 502, 503, 504)

    def found(self, operation: Operation) -> PhoneFound | EmailFound | None:
        """What is on file, or None. Raises an error for every other answer."""
        value = self.text("phoneNumber" if operation == "fetchPhoneNumber" else "email")
        profile_url = self.text("profileUrl")
        if self.http_status == 200 and value is not None and profile_url is not None:
            return PhoneFound(value, profile_url) if operation == "fetchPhoneNumber" else EmailFound(value, profile_url)
        if self.http_status == 404 and self.text("status") == "contact_not_found":
            return None
        raise self.error()

    def error(self) -> ContactdError:
        kind: type[ContactdError] = UnexpectedAnswer
        if self.http_status == 0:
            kind = ConnectionFailed
        elif self.http_status == 401:
            kind = Unauthorized
        elif self.http_status == 429:
            kind = QuotaExceeded if self.text("status") == "quota_exceeded" else RateLimited
        elif self.may_pass():
            kind = ServiceError
        elif self.text("status") == "invalid_profile_url":
            kind = InvalidProfileUrl
        error = kind(self)
        error.__cause__ = self.cause
        return error


class Client:
    """A service and a token for it.

    base_url:   where the service is, with or without a path; http or https
    token:      from its operator; begins with `ctd_`
    timeout:    seconds to wait for the connection, and for each part of an answer
    tries:      how often something is tried before it is an error; in a batch, tries without any progress
    max_wait:   the longest time to wait because the service asks for it, in seconds; if it asks for more, it is an error at once
    batch_size: lookups in one request, if the operator has set `limits.batch` below 100
    context:    for certificates of your own authority: `ssl.create_default_context(cafile="ca.pem")`
    """

    def __init__(self, base_url: str, token: str, *, timeout: float = 30.0, tries: int = 5, max_wait: float = 60.0,
                 batch_size: int = 100, context: ssl.SSLContext | None = None) -> None:
        parts = urllib.parse.urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
            raise ValueError("base_url has to be like https://contacts.example.com or https://example.com/contacts")
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token is empty, or has characters that no token has")
        if tries < 1 or batch_size < 1:
            raise ValueError("tries and batch_size have to be at least 1")
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._token, self._timeout, self._tries, self._max_wait, self._batch_size = token, timeout, tries, max_wait, batch_size
        # Connections that are not in use. A deque may be used by several threads.
        self._idle: deque[http.client.HTTPConnection] = deque()

    def fetch_phone_number(self, profile_url: str, *, request_id: str | None = None) -> PhoneFound | None:
        """The personal phone number of a profile, or None. `request_id` is best a UUID."""
        found = self._look_up("fetchPhoneNumber", profile_url, request_id)
        return found if isinstance(found, PhoneFound) else None

    def fetch_personal_email(self, profile_url: str, *, request_id: str | None = None) -> EmailFound | None:
        """The personal e-mail address of a profile, or None. `request_id` is best a UUID."""
        found = self._look_up("fetchPersonalEmail", profile_url, request_id)
        return found if isinstance(found, EmailFound) else None

    def batch(self, lookups: Iterable[Lookup]) -> Iterator[Result]:
        """Makes any number of lookups, 100 in each request, and yields one result for each, in order.

        Lookups are taken from the iterable as they are needed. A lookup that is refused is a result with an error, and those beside it
        are answered. What is refused only for now is sent again by itself. If a whole request fails (no connection, a token that is
        refused), that is raised: the results before it were yielded, so go on with the lookup after the last of them. After a
        result with `QuotaExceeded` you may want to stop.
        """
        part: list[Lookup] = []
        size = 0
        for lookup in lookups:
            length = len(_json(_described(lookup)))
            if part and (len(part) == self._batch_size or size + length > MOST_BYTES):
                yield from self._batch(part)
                part, size = [], 0
            part.append(lookup)
            size += length
        if part:
            yield from self._batch(part)

    def close(self) -> None:
        """Closes the connections that are not in use. The client can still be used."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took it
                return

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look_up(self, operation: Operation, profile_url: str, request_id: str | None) -> PhoneFound | EmailFound | None:
        waits = _Waits(self._tries, self._max_wait)
        request_id = request_id or str(uuid.uuid4())
        while True:
            answer = self._send(operation, {"profileUrl": profile_url}, request_id)
            if not waits.worth(answer) or not waits.wait([answer]):
                return answer.found(operation)

    def _batch(self, lookups: list[Lookup]) -> list[Result]:
        """The results of lookups that fit one request."""
        waits = _Waits(self._tries, self._max_wait)
        request_id = str(uuid.uuid4())
        answers: dict[int, _Answer] = {}
        left = list(range(len(lookups)))
        while True:
            results = self._send_batch([lookups[at] for at in left], request_id)
            answers.update(zip(left, results))
            refused = [at for at in left if waits.worth(answers[at])]
            if len(refused) < len(left):
                waits.start_again()
            left = refused
            if not left or not waits.wait([answers[at] for at in left]):
                return [_result(lookup, answers[at]) for at, lookup in enumerate(lookups)]

    def _send_batch(self, lookups: list[Lookup], request_id: str) -> list[_Answer]:
        """An answer for each lookup. Raises an error if there is none for any."""
        waits = _Waits(self._tries, self._max_wait)
        while True:
            answer = self._send("batch", {"lookups": [_described(lookup) for lookup in lookups]}, request_id)
            results = answer.body.get("results") if answer.http_status == 200 and isinstance(answer.body, dict) else None
            if isinstance(results, list) and len(results) == len(lookups):
                return [_of_result(result, request_id) for result in results]
            if answer.http_status == 413 and len(lookups) == 1:
                return [answer]
            if not waits.worth(answer) or not waits.wait([answer]):
                raise answer.error()

    def _send(self, name: str, body: object, request_id: str) -> _Answer:
        """Sends a request once. An answer with the status 0 stands for none."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", "X-Request-Id": request_id}
        request = (f"{self._path}/api/{name}", _json(body), headers)
        while True:
            connection, is_new = self._connection()
            try:
                return self._exchange(connection, request)
            except (OSError, http.client.HTTPException) as error:
                # The service closes connections that are not in use for a while, and all of them when it is restarted.
                if not is_new and not isinstance(error, TimeoutError):
                    self.close()
                    continue
                return _Answer(0, None, request_id, cause=error)

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        try:
            return self._idle.pop(), False
        except IndexError:
            if self._context:
                return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context), True
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout), True

    def _exchange(self, connection: http.client.HTTPConnection, request: tuple[str, bytes, dict[str, str]]) -> _Answer:
        is_reusable = False
        try:
            path, body, headers = request
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            content = response.read()
            is_reusable = not response.will_close
        finally:
            if is_reusable:
                self._idle.append(connection)
            else:
                connection.close()
        try:
            parsed = json.loads(content)
        except ValueError:
            parsed = None
        reason = response.headers["X-Invalid-Reason"] or _description(response.headers["WWW-Authenticate"])
        request_id = response.headers["X-Request-Id"] or headers["X-Request-Id"]
        return _Answer(response.status, parsed, request_id, reason, _seconds(response.headers["Retry-After"]))


class _Waits:
    """The pauses between the tries of a request."""

    def __init__(self, tries: int, max_wait: float) -> None:
        self._tries, self._max_wait, self._tried = tries, max_wait, 0

    def start_again(self) -> None:
        self._tried = 0

    def worth(self, answer: _Answer) -> bool:
        """Whether another try may have another answer, soon enough."""
        return answer.may_pass() and (answer.retry_after or 0.0) <= self._max_wait

    def wait(self, answers: list[_Answer]) -> bool:
        """Waits before the next try. False if there is none."""
        self._tried += 1
        if self._tried >= self._tries:
            return False
        pause = min(FIRST_PAUSE * 2 ** (self._tried - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.5)
        named = [answer.retry_after for answer in answers if answer.retry_after is not None]
        # Callers that were refused together do not come back together.
        time.sleep(max(named) + pause / 10 if named else pause)
        return True


def _described(lookup: Lookup) -> dict[str, str]:
    return {"operation": lookup.operation, "profileUrl": lookup.profile_url}


def _json(value: object) -> bytes:
    # Half a surrogate pair is no text, and would make the batch unreadable. With U+FFFD instead, only its own lookup is refused.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _of_result(result: Any, request_id: str) -> _Answer:
    fields = result if isinstance(result, dict) else {}
    status, reason, retry_after = fields.get("status"), fields.get("reason"), fields.get("retryAfter")
    return _Answer(status if isinstance(status, int) else 200, fields.get("body"), request_id,
                   reason if isinstance(reason, str) else None, float(retry_after) if isinstance(retry_after, (int, float)) else None)


def _result(lookup: Lookup, answer: _Answer) -> Result:
    try:
        return Result(lookup, answer.found(lookup.operation))
    except ContactdError as error:
        return Result(lookup, error=error)


def _description(challenge: str | None) -> str | None:
    """What `WWW-Authenticate` says about the token."""
    _, _, rest = (challenge or "").partition('error_description="')
    return rest.partition('"')[0] or None


def _seconds(retry_after: str | None) -> float | None:
    """`Retry-After`: seconds, or a date."""
    if not retry_after:
        return None
    try:
        return float(int(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
