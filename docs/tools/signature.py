#!/usr/bin/env python3
"""Prints SIZE:ROOT of the checkpoint on standard input, or of the checkpoint at the end of a proof.

It does not verify the signature, since Python has no Ed25519. It writes three files for OpenSSL 3:

  openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in signed.bin -sigfile signature.bin
"""
import argparse
import base64
import pathlib
import sys

PUBLIC_KEY_HEADER = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: an Ed25519 key in DER


def refuse(expected, got):
    sys.exit(f"not {expected}, but: {got[:200]!r}" if got.strip() else f"not {expected}: the input is empty")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("key", metavar="KEY", help="the log's verifier key, NAME+ID+KEY")
verifier_key = parser.parse_args().key.split("+", 2)
if len(verifier_key) < 3:
    parser.error("KEY must be NAME+ID+KEY")
name, key_id, key = verifier_key

sys.excepthook = lambda kind, error, trace: print(f"malformed input: {error}", file=sys.stderr)
for name_of_file in ("signed.bin", "signature.bin", "key.der"):
    pathlib.Path(name_of_file).unlink(missing_ok=True)  # OpenSSL must not verify those of an earlier run
note = sys.stdin.read().replace("\r\n", "\n")
*_, text, signatures = ["", *note.split("\n\n")]
if len(text.split("\n")) < 3 or not signatures.startswith("\u2014 "):
    refuse("a checkpoint", note)
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
