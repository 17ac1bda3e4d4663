import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { listen } from '@event-sourced/testing/rawHttp';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test } from 'vitest';
import { leafHash } from '../../../tlog/src/merkle/merkleTree.ts';
import { formatInclusionProof } from '../../../tlog/src/notes/proof.ts';
import { formatVerifierKey } from '../../../tlog/src/notes/signedNote.ts';
import { readText } from '../../../transparency-log/src/digest/readText.ts';
import { entries, FakeLog, serve, toEntry, VERIFIER_KEY } from '../fakeLog.ts';

const BIN = new URL('../../src/cli/bin.js', import.meta.url);
const README = new URL('../../README.md', BIN);
const BINARIES = fileURLToPath(new URL('../../../../node_modules/.bin', BIN));
const VKEY = formatVerifierKey(VERIFIER_KEY);
const KEY = ['--key', VKEY];

function start(args: string[], env = {}) {
  const bin = spawn(process.execPath, [fileURLToPath(BIN), ...args], { env: { TOKEN: 'secret', ...env } });
  return { bin, ended: endOf(bin) };
}

async function endOf(child: ChildProcessWithoutNullStreams) {
  const output = [text(child.stdout), text(child.stderr), once(child, 'close')] as const;
  const [stdout, stderr, [code, signal]] = await Promise.all(output);
  return { code, signal, stdout, stderr };
}

function run(args: string[], input = '', env = {}) {
  const { bin, ended } = start(args, env);
  bin.stdin.end(input);
  return ended;
}

/** Runs a command of the README in a directory. */
function paste(command: string, cwd: string) {
  const PATH = [dirname(process.execPath), BINARIES, process.env.PATH].join(delimiter);
  return endOf(spawn('sh', ['-c', `exec env ${command}`], { cwd, env: { PATH, KEY: VKEY } }));
}

test('the commands of the README check any proof and any log', async () => {
  const [, block = ''] = /```sh\n(.*?)```/s.exec(readFileSync(README, 'utf8')) ?? [];
  const [checkProof = '', monitor = ''] = block.split('\n');
  const dir = tempDir();
  const extra = Buffer.from(toEntry(1));
  const entry = Buffer.from(readText(extra).entry, 'hex');
  const log = new FakeLog([entry]);
  const proof = formatInclusionProof({ index: 0, path: [], checkpoint: `${await log.checkpoint()}`, extra });
  writeFileSync(join(dir, 'receipt.tlog-proof'), proof);
  const proven = await paste(checkProof, dir);
  expect(proven).toMatchObject({ code: 0, stdout: expect.stringContaining(`1:${leafHash(entry)}`) });
  writeFileSync(join(dir, 'receipt.tlog-proof'), proof.replace('index 0', 'index 1'));
  const refused = await paste(checkProof, dir);
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('the proof is invalid') });

  const { url } = await serve(log);
  const ofLog = monitor.replace('TOKEN=…', 'TOKEN=secret').replace('https://…', url);
  const checked = await paste(`${ofLog} --once`, dir);
  expect(checked).toMatchObject({ code: 0, stderr: '' });
  expect(checked.stdout).toMatch(/ {2}1:[\da-f]{64} {2}new events: 1\n$/);
});

test('a monitor follows a log although its output is on a full disk', async () => {
  const { url } = await serve(new FakeLog(entries(1)), { isPublic: true });
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const args = ['monitor', '--url', url, ...KEY, '--state', `${tempDir()}/state`, '--interval', '1'];
  const bin = spawn(process.execPath, [fileURLToPath(BIN), ...args], { stdio: ['ignore', full, 'pipe'] });
  let stderr = '';
  bin.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const twice = /^(not checked: cannot write to standard output: ENOSPC.*\n){2}/;
  await expect.poll(() => stderr).toMatch(twice);
  bin.kill();
  await once(bin, 'close');
});

test('a monitor reaches a log through the proxy of HTTP_PROXY, except the hosts of NO_PROXY', async () => {
  const { url } = await serve(new FakeLog(entries(1)), { isPublic: true });
  const proxy = await listen(async (request, response) => {
    const { pathname } = new URL(request.url as string); // a proxy gets the whole URL
    response.setHeader('content-type', 'application/octet-stream');
    response.end(Buffer.from(await (await fetch(url + pathname)).arrayBuffer()));
  });
  const env = { HTTP_PROXY: `http://alice:secret@127.0.0.1:${proxy.port}`, NO_PROXY: 'direct.invalid' };
  const check = (log: string, more = {}) =>
    run(['monitor', '--url', log, ...KEY, '--state', `${tempDir()}/state`, '--once'], '', {
      ...env,
      ...more,
    });
  expect(await check('http://log.invalid')).toMatchObject({ code: 0, stderr: '' });
  expect(await check('http://direct.invalid')).toMatchObject({ code: 2, stdout: '' });
  const refused = await check('http://log.invalid', { HTTP_PROXY: 'http://alice:secret@:x' });
  const stderr =
    'HTTPS_PROXY and HTTP_PROXY must be URLs of proxies, such as http://proxy.example:3128, or empty\n';
  expect(refused).toMatchObject({ code: 1, stderr });
});

test('a signal stops a command, which then ends by it', async () => {
  const { bin, ended } = start(['check-proof', ...KEY]);
  bin.stdin.on('error', () => {}); // it ends before it has read all
  bin.stdin.write(' '.repeat(1024 * 1024));
  await once(bin.stdin, 'drain'); // so it is reading
  bin.kill('SIGINT');
  expect(await ended).toEqual({ code: null, signal: 'SIGINT', stdout: '', stderr: '' });
});

test('its commands load no other packages than these', () => {
  const loaded = new Set<string>();
  const load = (module: URL): void => {
    if (loaded.has(module.href)) return;
    loaded.add(module.href);
    const imports = /^(?:import|export) (?!type )[^;]*?from '([^']+)';$/gms;
    for (const [, specifier = ''] of readFileSync(module, 'utf8').matchAll(imports))
      if (specifier.startsWith('.')) load(new URL(specifier, module));
      else loaded.add(specifier);
  };
  for (const module of ['index', 'checkProof', '../monitor']) load(new URL(`${module}.ts`, BIN));
  const packages = [...loaded].filter((one) => !/^(node|file):/.test(one)).map((one) => one.split('/', 2));
  expect([...new Set(packages.map((names) => names.join('/')))].sort()).toEqual([
    ...['event-log', 'node', 'tlog', 'transparency-log'].map((name) => `@event-sourced/${name}`),
    ...['commander', 'lru-cache'],
  ]);
});
