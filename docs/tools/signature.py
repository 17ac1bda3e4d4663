#!/usr/bin/env python3
"""Prints SIZE:ROOT of the checkpoint on standard input, or of the checkpoint at the end of a proof.

It does not verify the signature, since Python has no Ed25519. It writes three files for OpenSSL 3:

  openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in signed.bin -sigfile signature.bin
"""
import argparse
import base64
import sys

PUBLIC_KEY_HEADER = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: an Ed25519 key in DER

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("key", metavar="KEY", help="the log's verifier key, NAME+ID+KEY")
name, key_id, key = parser.parse_args().key.split("+", 2)

sys.excepthook = lambda kind, error, trace: print(f"malformed input: {error}", file=sys.stderr)
*_, text, signatures = sys.stdin.read().replace("\r\n", "\n").split("\n\n")
line = next((line for line in signatures.split("\n") if line.startswith(f"\u2014 {name} ")), None)
signature = base64.b64decode(line.split(" ")[2]) if line else b""
if signature[:4].hex() != key_id:
    sys.exit("another key has signed it")
_, size, root = text.split("\n")[:3]
with open("signed.bin", "wb") as file:
    file.write(text.encode() + b"\n")
with open("signature.bin", "wb") as file:
    file.write(signature[4:])
with open("key.der", "wb") as file:
    file.write(PUBLIC_KEY_HEADER + base64.b64decode(key)[1:])
print(f"{size}:{base64.b64decode(root).hex()}")
