"""The two operations in simple FastAPI code on one SQLite table, to compare with."""
import hashlib
import os
import sqlite3

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

app = FastAPI()
db = sqlite3.connect(os.environ["PEER_DB"], check_same_thread=False)
tokens = {row[0] for row in db.execute("SELECT hash FROM tokens")}


def canonical(url):
    if not isinstance(url, str):
        return None
    for prefix in ("https://www.linkedin.com/in/", "https://linkedin.com/in/"):
        if url.startswith(prefix):
            return "linkedin.com/in/" + url[len(prefix):].rstrip("/").lower()
    return None


async def lookup(request, column, field):
    authorization = request.headers.get("authorization", "")
    token = authorization[7:] if authorization[:7].lower() == "bearer " else ""
    if hashlib.sha256(token.encode()).hexdigest() not in tokens:
        return JSONResponse({"status": "no_authorization_found", "message": "No authorization found."}, 401)
    try:
        url = (await request.json()).get("profileUrl")
    except Exception:
        url = None
    key = canonical(url)
    if key is None:
        message = f"Invalid profileUrl: {url} on {request.url.path} api call."
        return JSONResponse({"status": "invalid_profile_url", "message": message}, 400)
    row = db.execute(f"SELECT {column} FROM contacts WHERE profile = ?", (key,)).fetchone()
    if row is None or row[0] is None:
        return JSONResponse({"status": "contact_not_found", "message": f"No {column} found for https://{key}."}, 404)
    return JSONResponse({field: row[0], "profileUrl": f"https://{key}"}, headers={"cache-control": "no-store"})


@app.post("/api/fetchPhoneNumber")
async def phone(request: Request):
    return await lookup(request, "phone", "phoneNumber")


@app.post("/api/fetchPersonalEmail")
async def email(request: Request):
    return await lookup(request, "email", "email")
