"""Tests of contactd.py against a real service, run by clients/test.sh."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import threading
import time
import traceback
import unittest
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

from contactd import (Client, ConnectionFailed, ContactdError, EmailFound, InvalidProfileUrl, Lookup, PhoneFound, QuotaExceeded,
                      RateLimited, Result, ServiceError, Unauthorized, UnexpectedAnswer)

URL, PROXY, TOKEN = os.environ["CONTACTD_URL"], os.environ["PROXY_URL"], os.environ["CONTACTD_TOKEN"]
COMPANY = "https://www.linkedin.com/company/quellcorp"
NOBODY = "https://www.linkedin.com/in/nobody-dornwett"
LOOKUPS = 10_000


def person(number: int) -> str:
    return f"https://www.linkedin.com/in/told-quell-{number}"


def email(number: int) -> EmailFound:
    return EmailFound(f"told{number}@example.com", f"https://linkedin.com/in/told-quell-{number}")


def ask_proxy(path: str) -> Any:
    return json.load(urllib.request.urlopen(f"{PROXY}/{path}", timeout=30))


class Run:
    """A client behind a proxy with a fault, and what the proxy saw."""

    def __init__(self, fault: str, token: str = TOKEN, timeout: float = 0.5, **options: Any) -> None:
        self.name = f"{fault}/{uuid.uuid4()}"
        self.client = Client(f"{PROXY}/{self.name}/", token, timeout=timeout, **options)

    def requests(self) -> list[dict[str, Any]]:
        return ask_proxy(f"log/{self.name}")  # type: ignore[no-any-return]


class Single(unittest.TestCase):
    def test_what_is_on_file_is_found_and_what_is_not_is_none(self) -> None:
        with Client(URL, TOKEN) as client:
            phone = client.fetch_phone_number(person(7))
            self.assertEqual(phone, PhoneFound("+14155550107", "https://linkedin.com/in/told-quell-7"))
            self.assertEqual(client.fetch_personal_email(person(7)), email(7))
            self.assertIsNone(client.fetch_phone_number(NOBODY))
            self.assertIsNone(client.fetch_personal_email(NOBODY))
            self.assertEqual(repr(phone), "PhoneFound()")

    def test_an_error_has_a_type_and_prints_nothing_about_a_person(self) -> None:
        request_id = str(uuid.uuid4())
        with self.assertRaises(InvalidProfileUrl) as refused:
            Client(URL, TOKEN).fetch_phone_number(COMPANY, request_id=request_id)
        error = refused.exception
        self.assertEqual((error.http_status, error.status, error.reason, error.request_id),
                         (400, "invalid_profile_url", "not_person", request_id))
        self.assertEqual(error.message, f"Invalid profileUrl: {COMPANY} on /api/fetchPhoneNumber api call.")
        printed = "".join(traceback.format_exception(error))
        self.assertIn(f"contactd.InvalidProfileUrl: 400 invalid_profile_url (not_person), request {request_id}\n", printed)
        for text in (printed, repr(error)):
            self.assertNotIn("quellcorp", text.replace("COMPANY", ""))
        for token, reason in [("ctd_mistyped", "unknown"), (os.environ["CONTACTD_REVOKED"], "revoked")]:
            with self.assertRaises(Unauthorized) as unauthorized:
                Client(URL, token).fetch_personal_email(person(1))
            self.assertEqual(unauthorized.exception.reason, reason)
            self.assertNotIn(token, "".join(traceback.format_exception(unauthorized.exception)))

    def test_what_may_pass_is_repeated_with_the_same_request_id(self) -> None:
        for fault, tries in {"rate": 2, "date": 2, "busy": 2, "error": 3, "gateway": 2, "silent": 2, "cut": 2, "half": 2}.items():
            with self.subTest(fault):
                run, began = Run(fault), time.monotonic()
                self.assertEqual(run.client.fetch_personal_email(person(3)), email(3))
                requests = run.requests()
                self.assertEqual((len(requests), len({request["id"] for request in requests})), (tries, 1))
                if fault in ("rate", "busy"):
                    self.assertGreater(time.monotonic() - began, 1)

    def test_there_is_a_limit_to_tries_and_to_waits(self) -> None:
        cases: list[tuple[str, dict[str, Any], type[ContactdError], int]] = [
            ("always-busy", {"tries": 3}, ServiceError, 3),
            ("always-silent", {"tries": 2}, ConnectionFailed, 2),
            ("rate", {"max_wait": 0.9}, RateLimited, 1),
            ("quota", {}, QuotaExceeded, 1),
        ]
        for fault, options, kind, tries in cases:
            with self.subTest(fault), self.assertRaises(ContactdError) as raised:
                run = Run(fault, **options)
                run.client.fetch_phone_number(person(3))
            self.assertEqual((type(raised.exception), len(run.requests())), (kind, tries))
        self.assertEqual((raised.exception.status, raised.exception.retry_after), ("quota_exceeded", 40_000))
        with self.assertRaises(ConnectionFailed) as failed:
            Client("http://127.0.0.1:9", TOKEN, tries=2).fetch_phone_number(person(3))
        self.assertIsInstance(failed.exception.__cause__, ConnectionRefusedError)

    def test_an_answer_that_is_not_of_the_service_is_not_repeated(self) -> None:
        for fault in ("html", "redirect", "elsewhere", "short"):
            with self.subTest(fault), self.assertRaises(UnexpectedAnswer):
                run = Run(fault)
                run.client.fetch_phone_number(person(3))
            self.assertEqual(len(run.requests()), 1)
        self.assertEqual(ask_proxy("log/pass/redirected"), [], "redirects are not followed")

    def test_a_wrong_address_or_token_is_refused_without_repeating_it(self) -> None:
        for url in ("contacts.example.com", "ftp://example.com", "https://a:b@example.com", "https://example.com?a=b"):
            with self.assertRaises(ValueError):
                Client(url, TOKEN)
        for token in ("", "ctd_quell\nX: y", "ctd quell", "ctd_é"):
            with self.assertRaises(ValueError) as refused:
                Client(URL, token)
            self.assertNotIn("quell", str(refused.exception))

    def test_a_certificate_has_to_be_trusted(self) -> None:
        url, began = f"{os.environ['PROXY_TLS_URL']}/pass/{uuid.uuid4()}", time.monotonic()
        with self.assertRaises(ConnectionFailed) as failed:
            Client(url, TOKEN).fetch_phone_number(person(3))
        self.assertIsInstance(failed.exception.__cause__, ssl.SSLCertVerificationError)
        self.assertLess(time.monotonic() - began, 2, "it is not repeated")
        trusting = ssl.create_default_context(cafile=os.environ["PROXY_CERTIFICATE"])
        self.assertEqual(Client(url, TOKEN, context=trusting).fetch_personal_email(person(3)), email(3))

    def test_connections_are_kept_and_those_that_the_service_closed_do_not_count_as_tries(self) -> None:
        kept, closed = Run("pass", timeout=5), Run("closing", tries=1, timeout=5)
        for run in (kept, closed):
            for number in range(10):
                self.assertEqual(run.client.fetch_personal_email(person(number)), email(number))
                time.sleep(0.01)
        self.assertEqual(len({request["port"] for request in kept.requests()}), 1)
        self.assertEqual(len({request["port"] for request in closed.requests()}), 10)

    def test_threads_share_a_client(self) -> None:
        run, wrong = Run("pass", timeout=20), []

        def look_up(first: int) -> None:
            for number in range(first, 160, 8):
                if run.client.fetch_personal_email(person(number)) != email(number):
                    wrong.append(number)

        threads = [threading.Thread(target=look_up, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        requests = run.requests()
        self.assertEqual((wrong, len(requests)), ([], 160))
        self.assertLessEqual(len({request["port"] for request in requests}), 8)


class Documents(unittest.TestCase):
    def test_the_code_that_uses_the_client_prints_what_the_document_says(self) -> None:
        for document, blocks in {"docs/clients.md": 1, "clients/python/README.md": 1}.items():
            found = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", pathlib.Path(document).read_text(), re.DOTALL)
            found = [(code, prints) for code, prints in found if "from contactd import" in code]
            self.assertEqual(len(found), blocks, document)
            for code, prints in found:
                command = [sys.executable, "-c", code.replace("http://127.0.0.1:8080", URL)]
                self.assertEqual(subprocess.run(command, capture_output=True, text=True, check=True).stdout, prints)


class Batches(unittest.TestCase):
    def test_any_number_of_lookups_is_cut_into_batches_and_one_bad_url_loses_no_other(self) -> None:
        odd = {5: COMPANY, 105: "half a pair \ud800", 205: "https://linkedin.com/in/" + "x" * 300_000, 206: NOBODY, 207: ""}
        run = Run("pass", timeout=20)
        results = list(run.client.batch(Lookup("fetchPersonalEmail", odd.get(n, person(n))) for n in range(250)))
        self.assertEqual(len(results), 250)
        for number, result in enumerate(results):
            self.assertEqual(result.lookup.profile_url, odd.get(number, person(number)))
            if number not in odd:
                self.assertEqual((result.found, result.error), (email(number), None))
        self.assertEqual(results[206], Result(results[206].lookup))
        self.assertEqual([_reason(results[number]) for number in (5, 105, 207)], ["not_person", "not_a_url", "empty"])
        self.assertIsInstance(results[205].error, UnexpectedAnswer)
        self.assertEqual([len(request["lookups"]) for request in run.requests()], [100, 100, 5, 1, 44])

    def test_only_what_is_refused_for_now_is_sent_again_with_the_same_request_id(self) -> None:
        run = Run("parts", timeout=20)
        results = list(run.client.batch(Lookup("fetchPersonalEmail", person(n)) for n in range(99)))
        self.assertEqual([result.found for result in results], [email(n) for n in range(99)])
        first, second = run.requests()
        self.assertEqual(second["lookups"], [person(n) for n in range(99) if n % 3])
        self.assertEqual(first["id"], second["id"])

    def test_what_is_refused_for_good_is_a_result(self) -> None:
        lookups = [Lookup("fetchPersonalEmail", person(n)) for n in range(4)]
        run = Run("parts-quota")
        results = list(run.client.batch(lookups))
        self.assertEqual([type(result.error) for result in results], [QuotaExceeded, type(None)] * 2)
        self.assertEqual((results[3].found, len(run.requests())), (email(3), 1))
        run = Run("parts-always", tries=3)
        results = list(run.client.batch(lookups))
        self.assertEqual([type(result.error) for result in results], [ServiceError] + [type(None)] * 3)
        self.assertEqual([len(request["lookups"]) for request in run.requests()], [4, 1, 1])

    def test_a_request_that_fails_as_a_whole_is_raised_after_the_results_before_it(self) -> None:
        results = []
        with self.assertRaises(ConnectionFailed):
            for result in Run("dies", tries=2, timeout=20).client.batch(Lookup("fetchPersonalEmail", person(n)) for n in range(150)):
                results.append(result.found)
        self.assertEqual(results, [email(n) for n in range(100)])
        for fault, kind in {"short": UnexpectedAnswer, "quota": QuotaExceeded}.items():
            with self.assertRaises(kind):
                list(Run(fault).client.batch([Lookup("fetchPhoneNumber", NOBODY)]))
        for fault in ("busy", "cut", "silent", "half"):
            with self.subTest(fault):
                self.assertEqual([result.found for result in Run(fault).client.batch([Lookup("fetchPersonalEmail", person(1))])], [email(1)])

    def test_lookups_are_taken_as_they_are_needed(self) -> None:
        taken = itertools.count()
        results = Client(URL, TOKEN).batch(Lookup("fetchPersonalEmail", person(number)) for number in taken)
        self.assertEqual([result.found for result in itertools.islice(results, 150)], [email(n) for n in range(150)])
        self.assertLessEqual(next(taken), 202)
        self.assertEqual(list(Client(URL, TOKEN).batch([])), [])

    def test_limits_of_the_service_are_kept(self) -> None:
        lookups = [Lookup("fetchPersonalEmail", person(n)) for n in range(150)]
        results = list(Client(URL, os.environ["CONTACTD_RATED"]).batch(lookups))
        self.assertEqual([result.found for result in results], [email(n) for n in range(150)])
        results = list(Client(URL, os.environ["CONTACTD_METERED"]).batch(lookups[:10]))
        self.assertEqual([type(result.error) for result in results], [type(None)] * 3 + [QuotaExceeded] * 7)

    def test_ten_thousand_lookups_are_each_answered_once_while_the_service_is_restarted(self) -> None:
        before, restarts = ask_proxy("hits"), {2_000: "TERM", 5_000: "KILL", 8_000: "TERM"}

        def lookups() -> Iterator[Lookup]:
            for number in range(LOOKUPS):
                if how := restarts.get(number):
                    ask_proxy(f"restart/{how}")
                yield Lookup("fetchPersonalEmail", person(number))

        client = Client(URL, TOKEN, tries=8)
        results = list(client.batch(lookups()))
        self.assertEqual([result.found for result in results], [email(n) for n in range(LOOKUPS)])
        self.assertLessEqual(ask_proxy("hits") - before, LOOKUPS + 100 * len(restarts), "only batches under way are repeated")


def _reason(result: Result) -> str | None:
    return result.error.reason if isinstance(result.error, InvalidProfileUrl) else None


if __name__ == "__main__":
    # Most clients of the tests are not closed, and Python says so for each connection.
    unittest.main(warnings="ignore")
