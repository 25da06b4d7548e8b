"""Calls a demo service with the Python client of the Model Context Protocol: python3 use_mcp_client.py BASE BIN

Over HTTP and over `contactd mcp`, in both versions. The client checks each structured result against the schema of its tool.
"""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

BASE, BIN = sys.argv[1:]
TOKEN = os.environ["CONTACTD_TOKEN"]
ADA = "https://www.linkedin.com/in/ada-quell-1a2b3c"
CANONICAL = "https://linkedin.com/in/ada-quell-1a2b3c"
NOBODY = "https://linkedin.com/in/nobody-on-file-0000"
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}

CALLS: list[tuple[str, str, dict[str, Any] | str]] = [
    ("fetch_phone_number", ADA, {"found": True, "phoneNumber": "+14155550123", "profileUrl": CANONICAL}),
    ("fetch_personal_email", ADA, {"found": True, "email": "ada@example.com", "profileUrl": CANONICAL}),
    ("fetch_phone_number", NOBODY, {"found": False, "profileUrl": NOBODY}),
    ("check_profile_url", ADA, {"canonical": CANONICAL, "network": "linkedin"}),
    ("fetch_phone_number", "https://example.com/in/x", "invalid_profile_url"),
]


def expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"FAIL {what}: {found!r}, not {expected!r}")


@asynccontextmanager
async def connected(how: str, mode: str, token: str = TOKEN) -> AsyncIterator[Client]:
    if how == "stdio":
        environment = {"CONTACTD_TOKEN": token, "NO_PROXY": "*"}
        program = StdioServerParameters(command=BIN, args=["mcp", "--url", BASE], env=environment)
        async with Client(stdio_client(program), mode=mode) as client:
            yield client
    else:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http:
            async with Client(streamable_http_client(f"{BASE}/mcp", http_client=http), mode=mode) as client:
                yield client


async def use(how: str, mode: str) -> None:
    async with connected(how, mode) as client:
        expect("version", client.protocol_version, VERSIONS[mode])
        listed = await client.list_tools()
        names = [tool.name for tool in listed.tools]
        expect("tools", names, ["fetch_phone_number", "fetch_personal_email", "check_profile_url"])
        for tool, url, expected in CALLS:
            result = await client.call_tool(tool, {"profileUrl": url})
            if isinstance(expected, str):
                expect(f"{tool} {url}", (result.is_error, (result.meta or {}).get("error_code")), (True, expected))
            else:
                expect(f"{tool} {url}", (result.is_error, result.structured_content), (False, expected))
        try:
            await client.call_tool("fetch_everything", {})
            sys.exit("FAIL a tool that there is not")
        except MCPError as error:
            expect("a tool that there is not", error.error.code, -32602)
    try:
        async with connected(how, mode, "ctd_wrong") as client:
            await client.list_tools()
        sys.exit("FAIL a wrong token is taken")
    except* MCPError as errors:
        error = errors.exceptions[0]
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        expect("a wrong token", str(error), "No authorization found.")
    print(f"ok   the Python client over {how}, {mode}")


async def main() -> None:
    for how in ["http", "stdio"]:
        for mode in VERSIONS:
            await use(how, mode)


asyncio.run(main())
