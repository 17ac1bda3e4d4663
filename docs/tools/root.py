#!/usr/bin/env python3
"""Computes SIZE:ROOT, the Merkle root, of the events on standard input, and checks what is erased.

The input has one event per line, as `bin/plant-store replay --end` and `GET /events?end=true` print them.
With SIZE, later lines are ignored: the root is that of the first SIZE events, those of a checkpoint.
Without SIZE, the last line must say where the events end: otherwise the input has broken off.
A later record must name each erased event, and a record may name nothing else.
It reads events that this service has written; packages/transparency-log/SPECIFICATION.md has the rules for others.
"""
import argparse
import hashlib
import json
import re
import sys
import uuid

AGAIN = "fetch the checkpoint and the events again; if that changes nothing, an event may be hidden"


def sha256(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def text_of(event):
    return canonical({
        "data": event["data"],
        "id": event["id"],
        "metadata": json.loads(event["metadata"]),
        "revision": event["revision"],
        "stream": event["subject"],
        "type": event["type"],
    })


def entry_of(digest, type_):
    return sha256(canonical({"sha256": digest, "type": type_}))


def stub_entry(line):
    """The entry of an erased event, from which its line must follow."""
    digest, type_ = line["data"]["sha256"], line["data"]["type"]
    entry = entry_of(digest, type_)
    bits = bytearray(entry[:16])
    bits[6], bits[8] = bits[6] & 15 | 0x80, bits[8] & 63 | 0x80
    id_ = str(uuid.UUID(bytes=bytes(bits)))
    is_stub = (
        line["data"] == {"sha256": digest, "type": type_}
        and re.fullmatch("[0-9a-f]{64}", digest) and isinstance(type_, str)
        and [line["type"], line["revision"], line["id"], line["erased"]] == ["EventErased", "0", id_, entry.hex()]
        and re.fullmatch(f"[^/]*erased-{id_}", line["subject"])
    )
    if not is_stub:
        raise ValueError
    return entry


def names_of(data, index):
    """The indices of the events that a record names, or None if it is no record."""
    names = data["erased"] if isinstance(data, dict) and list(data) == ["erased"] else None
    if not isinstance(names, list) or not 1 <= len(names) <= 10_000 or not all(type(name) is int for name in names):
        return None
    return names if all(a < b for a, b in zip([-1, *names], [*names, index])) else None


def entries(lines, erased):
    """The entries of the lines. Checks the rules for erased events; `erased` gets their number and that of the records."""
    stubs, unnamed = set(), set()
    for index, line in enumerate(lines):
        try:
            event = json.loads(line)
            is_stub = "erased" in event
            entry = stub_entry(event) if is_stub else entry_of(sha256(text_of(event)).hex(), event["type"])
        except (ValueError, KeyError, TypeError, RecursionError):
            sys.exit(f"line {index + 1} is not an event of this service, but: {line[:200].decode(errors='replace')!r}")
        if is_stub:
            if event["data"]["type"] == "EventsErased":
                sys.exit(f"line {index + 1} is the stub of a record: the record of an erasure was erased")
            stubs.add(index)
            unnamed.add(index)
        elif event["type"] == "EventsErased":
            names = names_of(event["data"], index)
            if names is None:
                sys.exit(f"line {index + 1} is a false record: {json.dumps(event['data'])[:200]}")
            for name in names:
                if name not in stubs:
                    sys.exit(f"line {index + 1} names line {name + 1} as erased, which is not: {AGAIN}")
            unnamed.difference_update(names)
            erased["records"] += 1
        yield entry
    erased["events"] = len(stubs)
    if unnamed:
        sys.exit(f"line {min(unnamed) + 1} is erased, and no later line is the record of it: {AGAIN}")


def lines_until_end(lines, limit):
    """The first `limit` lines; without a limit, the lines before the last one, which says where the events end."""
    for index, line in enumerate(lines):
        if index == limit or re.fullmatch(rb'\{"end":"[0-9]+"\}\n?', line):
            return
        yield line
    if limit is None:
        sys.exit('the input has broken off: its last line, {"end":"POSITION"}, is missing; use ?end=true, or --end')


def tree_head(entries):
    size, trees = 0, []  # the roots of the perfect subtrees, the largest first
    for entry in entries:
        node, rest = sha256(b"\0" + entry), size
        while rest % 2:
            node, rest = sha256(b"\1" + trees.pop() + node), rest // 2
        trees.append(node)
        size += 1
    root = trees.pop() if trees else sha256(b"")
    while trees:
        root = sha256(b"\1" + trees.pop() + root)
    return size, root


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("size", metavar="SIZE", nargs="?", help="the number of events; by default all")
expected = parser.parse_args().size
if expected is not None and not re.fullmatch("[0-9]{1,15}", expected):
    parser.error(f"SIZE must be a number of events, such as 7, but is {expected[:200]!r}; the checkpoint may be an error")
limit = None if expected is None else int(expected)
erased = {"events": 0, "records": 0}
size, root = tree_head(entries(lines_until_end(sys.stdin.buffer, limit), erased))
if limit not in (None, size):
    sys.exit(f"the input has {size} events, fewer than {limit}")
if erased["events"]:
    counts = [f"{count} {kind[: -1 if count == 1 else None]}" for kind, count in erased.items()]
    print(f"erased: {', '.join(counts)}", file=sys.stderr)
print(f"{size}:{root.hex()}")
