import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import { formatInclusionProof } from '../../src/notes/proof.ts';
import { formatVerifierKey } from '../../src/notes/signedNote.ts';
import { entries, FakeLog, serve, VERIFIER_KEY } from './fakeLog.ts';

const BIN = new URL('../../src/monitor/bin.ts', import.meta.url);
const KEY = ['--key', formatVerifierKey(VERIFIER_KEY)];

async function run(args: string[], input = '') {
  const bin = spawn(process.execPath, [fileURLToPath(BIN), ...args], { env: { TOKEN: 'secret' } });
  bin.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(bin.stdout),
    text(bin.stderr),
    once(bin, 'close'),
  ]);
  return { code, stdout, stderr };
}

test('transparency-log monitor checks any log, and check-proof any proof', async () => {
  const log = new FakeLog(entries(1));
  const { url } = await serve(log);
  const checked = await run(['monitor', '--url', url, ...KEY, '--state', `${tempDir()}/state`, '--once']);
  expect(checked).toMatchObject({ code: 0, stderr: '' });
  expect(checked.stdout).toMatch(
    / {2}1:[\da-f]{64} {2}new events: 1, with problems: 0, of unknown types: 1\n$/,
  );
  const extra = log.log[0] as Buffer;
  const note = `${await log.checkpoint()}`;
  const proof = formatInclusionProof({ index: 0, path: [], checkpoint: note, extra });
  const proven = await run(['check-proof', ...KEY], proof);
  expect(proven).toMatchObject({ code: 0, stdout: expect.stringContaining(`1:${leafHash(extra)}`) });
  const refused = await run(['check-proof', ...KEY], proof.replace('index 0', 'index 1'));
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('the proof is invalid') });
});

test('it loads nothing of the service, of a store or of a database', () => {
  const loaded = new Set<string>();
  const load = (module: URL): void => {
    if (loaded.has(module.href)) return;
    loaded.add(module.href);
    const imports = /^(?:import|export) (?!type )[^;]*?from '([^']+)';$/gms;
    for (const [, specifier = ''] of readFileSync(module, 'utf8').matchAll(imports))
      if (specifier.startsWith('.')) load(new URL(specifier, module));
      else loaded.add(specifier);
  };
  for (const module of [BIN, new URL('monitor.ts', BIN)]) load(module);
  const rooms = [...loaded].map((one) => one.replace(/.*\/src\/(\w+)\/.*/, 'src/$1'));
  expect([...new Set(rooms)].filter((room) => !room.startsWith('node:')).sort()).toEqual([
    ...['canonicalize', 'commander', 'lru-cache'],
    ...[
      'src/entries',
      'src/files',
      'src/http',
      'src/merkle',
      'src/monitor',
      'src/notes',
      'src/sign',
      'src/witness',
    ],
  ]);
  expect(loaded).not.toContain('node:sqlite');
});
