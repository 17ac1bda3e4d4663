import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { leafHash } from '../../tlog/src/merkle/merkleTree.ts';
import { entryOf } from '../src/digest/eventEntry.ts';
import { cloudEventEntry, cloudEventText } from '../src/digest/index.ts';
import { readText } from '../src/digest/readText.ts';

const PAGE = readFileSync(new URL('../SPECIFICATION.md', import.meta.url), 'utf8');
const VECTORS = [...PAGE.matchAll(/^```json\n(.*?)^```$/gms)].map(([, json = '']) => JSON.parse(json));

test.each(VECTORS)(
  'SPECIFICATION.md has the hashes of $text$line.subject',
  ({ text, line, sha256, entry, leaf }) => {
    if (leaf) expect(leafHash(Buffer.from(entry, 'hex'))).toBe(leaf);
    if (line) expect(cloudEventEntry(line).entry).toBe(entry);
    if (line && text) expect(cloudEventText(line)).toBe(text);
    if (!text) return;
    const read = readText(Buffer.from(text));
    expect(read.entry).toBe(entry);
    expect(hash('sha256', text)).toBe(sha256);
    expect(entryOf({ sha256, type: read.event.type })).toBe(entry);
  },
);

test('SPECIFICATION.md has vectors of an event, its stub, its record, and events of other programs', () => {
  expect(VECTORS.map(({ text, line }) => [text, line].map(Boolean))).toEqual([
    [true, true],
    [false, true],
    ...Array.from({ length: 5 }, () => [true, false]),
  ]);
});
