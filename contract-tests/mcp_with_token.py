"""Passes requests on with the token of CONTACTD_TOKEN: python3 mcp_with_token.py ADDRESS:PORT URL"""

import http.client
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

address, port = sys.argv[1].split(":")
service = urlsplit(sys.argv[2])


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        headers["Authorization"] = f"Bearer {os.environ['CONTACTD_TOKEN']}"
        connection = http.client.HTTPConnection(service.netloc)
        connection.request(self.command, service.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = relay

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """The suite closes connections as it likes."""


Server((address, int(port)), Relay).serve_forever()
