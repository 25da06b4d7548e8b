"""Calls a demo service with the generated client, the package `contact_client`."""

import json
import os
import sys
from urllib.request import urlopen

from contact_client import AuthenticatedClient
from contact_client.api.lookup import batch, fetch_personal_email, fetch_phone_number
from contact_client.models import BatchRequest, EmailFound, Error, ErrorStatus, LookupRequest, PhoneFound

ADA = "https://www.linkedin.com/in/ada-quell-1a2b3c"
MIRA = "https://www.xing.com/profile/Mira_Quellbach2"
NOBODY = "https://www.linkedin.com/in/nobody-on-file-0000"
COMPANY = "https://www.linkedin.com/company/quellcorp"

# The client takes the address from the document, like tools that read `servers`.
document = json.load(urlopen(sys.argv[1]))
base = document["servers"][0]["url"]
good = AuthenticatedClient(base_url=base, token=os.environ["CONTACTD_TOKEN"], raise_on_unexpected_status=True)
wrong = AuthenticatedClient(base_url=base, token="wrong", raise_on_unexpected_status=True)

CALLS = [
    (fetch_phone_number, good, ADA, 200,
     PhoneFound(phone_number="+14155550123", profile_url="https://linkedin.com/in/ada-quell-1a2b3c")),
    (fetch_personal_email, good, ADA, 200,
     EmailFound(email="ada@example.com", profile_url="https://linkedin.com/in/ada-quell-1a2b3c")),
    (fetch_personal_email, good, MIRA, 200,
     EmailFound(email="mira.quellbach@example.org", profile_url="https://xing.com/profile/Mira_Quellbach2")),
    (fetch_phone_number, good, NOBODY, 404,
     Error(status=ErrorStatus.CONTACT_NOT_FOUND,
           message="No phone number found for https://linkedin.com/in/nobody-on-file-0000.")),
    (fetch_personal_email, good, NOBODY, 404,
     Error(status=ErrorStatus.CONTACT_NOT_FOUND,
           message="No personal e-mail found for https://linkedin.com/in/nobody-on-file-0000.")),
    (fetch_phone_number, good, COMPANY, 400,
     Error(status=ErrorStatus.INVALID_PROFILE_URL,
           message=f"Invalid profileUrl: {COMPANY} on /api/fetchPhoneNumber api call.")),
    (fetch_personal_email, good, COMPANY, 400,
     Error(status=ErrorStatus.INVALID_PROFILE_URL,
           message=f"Invalid profileUrl: {COMPANY} on /api/fetchPersonalEmail api call.")),
    (fetch_phone_number, wrong, ADA, 401,
     Error(status=ErrorStatus.NO_AUTHORIZATION_FOUND, message="No authorization found.")),
    (fetch_personal_email, wrong, ADA, 401,
     Error(status=ErrorStatus.NO_AUTHORIZATION_FOUND, message="No authorization found.")),
]

# The examples of the document are sent as they are.
for path, operation in [("/api/fetchPhoneNumber", fetch_phone_number), ("/api/fetchPersonalEmail", fetch_personal_email)]:
    described = document["paths"][path]["post"]
    found = described["responses"]["200"]["content"]["application/json"]["examples"]["found"]["value"]
    model = PhoneFound if "phoneNumber" in found else EmailFound
    for example in described["requestBody"]["content"]["application/json"]["examples"].values():
        CALLS.append((operation, good, example["value"]["profileUrl"], 200, model.from_dict(found)))

failed = 0
for operation, client, url, status, expected in CALLS:
    try:
        response = operation.sync_detailed(client=client, body=LookupRequest(profile_url=url))
        got = response.status_code, response.parsed
    except Exception as error:
        got = error
    # The models compare the type and every field, including fields that are not in the document.
    ok = got == (status, expected)
    failed += not ok
    print("ok  " if ok else "FAIL", operation.__name__.rpartition(".")[2], url, "->", status, expected)
    if not ok:
        print("     got", got)

described = document["paths"]["/api/batch"]["post"]
answer = batch.sync_detailed(client=good, body=BatchRequest.from_dict(
    described["requestBody"]["content"]["application/json"]["examples"]["two"]["value"]))
expected = described["responses"]["200"]["content"]["application/json"]["examples"]["results"]["value"]
ok = (answer.status_code, answer.parsed.to_dict()) == (200, expected)
failed += not ok
print("ok  " if ok else "FAIL", "batch", answer.parsed.to_dict())

print(f"{len(CALLS) + 1 - failed} passed, {failed} failed")
sys.exit(failed > 0)
