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
verifier_key = parser.parse_args().key
for name_of_file in ("signed.bin", "signature.bin", "key.der"):
    pathlib.Path(name_of_file).unlink(missing_ok=True)  # OpenSSL must not verify those of an earlier run
try:
    name, key_id, key = verifier_key.strip().split("+", 2)
    key = base64.b64decode(key, validate=True)
    if len(key) != 33:
        raise ValueError
except ValueError:
    parser.error(f"KEY must be NAME+ID+KEY, as log-key prints it, but is {verifier_key[:200]!r}")

note = sys.stdin.buffer.read().decode(errors="replace").replace("\r\n", "\n")
try:
    text, signatures = note.split("\n\n")[-2:]
    _, size, root = text.split("\n")[:3]
    size, root = int(size), base64.b64decode(root).hex()
    signed = {}
    for _, signer, signature in [line.split(" ") for line in signatures.strip().split("\n")]:
        signature = base64.b64decode(signature)
        signed[f"{signer}+{signature[:4].hex()}"] = signature
except ValueError:
    refuse("a checkpoint", note)
if f"{name}+{key_id}" not in signed:
    sys.exit(f"another key has signed it: not {name}+{key_id}, but {', '.join(signed)}")
with open("signed.bin", "wb") as file:
    file.write(text.encode() + b"\n")
with open("signature.bin", "wb") as file:
    file.write(signed[f"{name}+{key_id}"][4:])
with open("key.der", "wb") as file:
    file.write(PUBLIC_KEY_HEADER + key[1:])
print(f"{size}:{root}")
