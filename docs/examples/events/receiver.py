#!/usr/bin/env python3
"""A receiver for trying out the events of Sluice: it verifies each message and prints its title.

SECRET=whsec_... python3 receiver.py 8099
"""
import base64, hashlib, hmac, http.server, json, os, sys, time

KEY = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        stamp = self.headers.get("webhook-timestamp", "0")
        signed = f'{self.headers.get("webhook-id")}.{stamp}.'.encode() + body
        expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        signatures = self.headers.get("webhook-signature", "").split()
        good = any(hmac.compare_digest(s, "v1," + expected) for s in signatures)
        if not good or abs(time.time() - int(stamp)) > 300:
            self.send_response(401)
        else:
            event = json.loads(body)
            # Sluice can send a message twice: remember webhook-id if that matters.
            print(f'{event["data"]["state"]} {event["type"]}: {event["data"]["title"]}')
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"listening on http://127.0.0.1:{server.server_port}")
server.serve_forever()
