import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, test } from 'vitest';
import {
  entries,
  FakeLog,
  ORIGIN,
  serve,
  toEntry,
  VERIFIER_KEY,
} from '../../packages/monitor/test/fakeLog.ts';
import { proveConsistency } from '../../packages/tlog/src/notes/prove.ts';
import { formatVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { signCheckpoint } from '../../packages/tlog/src/sign/signCheckpoint.ts';
import { loadExistingLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';
import { SavedTree } from '../../packages/transparency-log/src/view/index.ts';
import { FakeWitness } from '../../packages/transparency-log/test/signer/fakeWitness.ts';
import { runCommand } from '../../packages/transparency-log/test/support/program.ts';
import { readConfig } from '../../src/config.ts';
import { VIEWS } from '../../src/views.ts';
import { createCheckout } from '../support/checkout.ts';
import { runCli, succeeded } from '../support/cli.ts';
import { JOB_USER, runAsSystemd } from '../support/jobs.ts';
import { createPlants, type PlantOfUser } from '../support/plants.ts';
import { canRun, NODE, ROOT, run, start } from '../support/process.ts';
import { checkpointOf, serviceOfFile, startService } from '../support/service.ts';

const README = readFileSync(join(ROOT, 'README.md'), 'utf8');
const PAGE = readFileSync(join(ROOT, 'docs/auditing.md'), 'utf8');
const ALARMS = readFileSync(join(ROOT, 'docs/alarms.md'), 'utf8');
const WITNESSES = readFileSync(join(ROOT, 'docs/witnesses.md'), 'utf8');
const blocks = (language: string, page = PAGE): string[] =>
  [...page.matchAll(/^```(\w*)\n(.*?)^```$/gms)].flatMap(([, of, block = '']) =>
    of === language ? [block] : [],
  );
// In the order of the page, which is the order of its tests: some commands use the output of earlier commands.
const [SETUP = '', EVENTS = '', NEWEST = '', CHECK = '', VERIFY = '', PROVE = '', RECEIPT = '', TOOLS = ''] =
  blocks('sh');
const [FORK = '', CHECK_FORK = ''] = blocks('sh', ALARMS);

const PLANTS: readonly PlantOfUser[] = [
  ['alice', 42n, { name: 'Fern', tag: 'indoor' }],
  ['bob', 42n, { name: '', tag: '' }],
  ['alice', -(2n ** 63n), { name: Array.from({ length: 0x20 }, (_, i) => String.fromCharCode(i)).join('') }],
  ['bob', 2n ** 63n - 1n, { name: 'delete \u007f, next line \u0085, lines \u2028 \u2029 \r\n' }],
  ['alice', 1n, { name: 'quotes "\' and slashes \\ / \\u0041 \\\\', tag: '</script>' }],
  ['bob', 1n, { name: 'emoji 🌱👩‍🌾, \ufeffmark, \ufffd, \uffff', tag: '\u{10ffff}' }],
  ['zoë 🌱/-', 1n, { name: 'e\u0301 and é' }],
];

const hasPython = canRun('the scripts of docs/tools', ['python3', '--version']);

/** The service on which pasted commands run. */
const service = await serviceOfFile({ MERKLE_TREE: 'on' });
const inDir = { DATA_DIR: service.dir, MERKLE_TREE: 'on' };
const auditor = service.as('carol', 'audit');

test('README.md starts with commands that create and list a plant, and show the log, when pasted', async () => {
  const [, request = '', auditor = '', ...others] = blocks('sh', README);
  expect(others).toEqual(['npm ci && npm test\n']);
  const other = await startService();
  const paste = async (block: string) => {
    const script = block.replaceAll('http://127.0.0.1:3000', other.url);
    return succeeded(await run({ env: { DATA_DIR: other.dir }, command: ['sh', '-c', script] }));
  };
  const [, created, listed] = /The first `curl` returns `(.*?)`, the second `(.*?)`/.exec(README) ?? [];
  expect(await paste(request)).toBe(`${created}${listed}`);
  const headers = { authorization: `Bearer ${(await paste(auditor)).trim()}` };
  expect(await (await fetch(`${other.url}/events`, { headers })).json()).toMatchObject({
    data: { name: 'Fern' },
  });
  expect(README.split('\n').findIndex((line) => line.startsWith('curl'))).toBeLessThan(25);
});

test('docs/guide.md shows what its commands print, when pasted in its order', async () => {
  const guide = readFileSync(join(ROOT, 'docs/guide.md'), 'utf8');
  const { url, dir } = await startService();
  const [setup = '', ...commands] = blocks('sh', guide);
  const script = commands.map((command) => `${command}echo; echo ---\n`).join('');
  const printed = succeeded(
    await run({
      env: { DATA_DIR: dir },
      command: ['sh', '-c', `${setup}${script}`.replaceAll('http://127.0.0.1:3000', url)],
    }),
  );
  const shown = (text: string) =>
    text
      .replaceAll('\r', '')
      .trim()
      .replace(/after=s[\da-f]+\.1/, 'after=CURSOR')
      .replaceAll('\n', '');
  expect(printed.split('---\n').slice(0, -1).map(shown)).toEqual(blocks('', guide).map(shown));
});

test('docs/guide.md has a line of JavaScript that resolves a Link', () => {
  const [resolve = ''] = blocks('js', readFileSync(join(ROOT, 'docs/guide.md'), 'utf8'));
  const next = new Function('link', 'response', `return ${resolve}`)('plants?limit=1', {
    url: 'https://example.org/below/plants?limit=1',
  });
  expect(String(next)).toBe('https://example.org/below/plants?limit=1');
});

/** The directory of the commands: a checkout, to which they write their files. */
const dir = tempDir(afterAll);
createCheckout(dir);
await createPlants(service, PLANTS.slice(0, 5));
const CHECKPOINT_OF_5 = await checkpointOf(5, auditor);
await createPlants(service, PLANTS.slice(5));
await checkpointOf(7, auditor);
const { stdout: verification } = await runCli(['verify'], inDir);
/** The SIZE:ROOT that an auditor keeps. */
const expectedRoot = /^expect +(\S+)$/m.exec(verification)?.[1] as string;

describe('docs/auditing.md', () => {
  test('mentions only options of these commands', async () => {
    let help = '';
    for (const command of ['token', 'replay', 'plants', 'verify', 'prove'])
      help += (await runCli([command, '--help'])).stdout;
    for (const command of ['check-proof', 'monitor']) help += (await runCommand([command, '--help'])).stdout;
    const named = [...PAGE.replaceAll(/^curl .*$/gm, '').matchAll(/(?<=[` ])--[a-z]+/g)].map(
      ([option]) => option,
    );
    expect(named.length).toBeGreaterThan(10);
    for (const option of named) expect(help).toMatch(RegExp(`${option}\\b`));
  });

  test('shows what its commands print, when pasted after those of README.md', async () => {
    const other = await startService({ MERKLE_TREE: 'on' });
    const checkout = tempDir();
    createCheckout(checkout);
    const paste = async (block: string) => {
      const script = `cd '${checkout}'\n${block.replaceAll('http://127.0.0.1:3000', other.url)}`;
      const env = { DATA_DIR: other.dir, MERKLE_TREE: 'on' };
      return succeeded(await run({ env, command: ['sh', '-c', script] }));
    };
    await paste(blocks('sh', README)[1] ?? '');
    await checkpointOf(1, other.as('carol', 'audit'));
    const [line = ''] = (await paste(`${SETUP}${CHECK}`)).split(/(?<=\n)/);
    const shown = (text: string) =>
      text.replaceAll(/[\da-f]{64}|[\da-f]{16}…/g, 'ROOT').replaceAll(/\d{4}-\S+Z/g, 'TIME');
    expect([line, await paste(VERIFY)].map(shown)).toEqual(blocks('').map(shown));
  });

  test('prints the same events over HTTP as replay', async () => {
    const [http = '', machine, ...others] = await Array.fromAsync(EVENTS.split(/(?<=\n)/), async (one) =>
      succeeded(await pasted(one)),
    );
    expect(http).toBe(machine);
    const events = http.trimEnd().split('\n');
    expect(events.pop()).toMatch(/^\{"end":"\d+"\}$/);
    expect(events.map((line) => JSON.parse(line).data.name)).toEqual(PLANTS.map(([, , { name }]) => name));
    expect(others).toEqual([]);
  });

  test('prints a page of the newest events, and the link to the next one', async () => {
    const [head = '', body = ''] = succeeded(await pasted(NEWEST)).split('\r\n\r\n');
    expect(head).toMatch(/^link: <events\?.*>; rel="next"\r?$/m);
    expect(PAGE.replaceAll('\n', ' ')).toContain('With `order=descending`, only `Log-Position` is there.');
    expect(head).toMatch(/^log-position: /m);
    expect(head).not.toMatch(/^checkpoint: /m);
    const events = body.trimEnd().split('\n');
    const newest = PLANTS.toReversed().slice(0, 5);
    expect(events.map((line) => JSON.parse(line).data.name)).toEqual(newest.map(([, , { name }]) => name));
  });

  test('follows the log over HTTP, with and without access to its content', async () => {
    const lines = succeeded(await pasted(CHECK)).split(/(?<=\n)/);
    const found = (added: string) =>
      expect.stringMatching(RegExp(`  urn:plant-store  ${expectedRoot}  new events: ${added}\n$`));
    expect(lines).toEqual(['7', '0', '0, compared again: 7'].map(found));
  });

  test('verifies the checkpoint of the monitor, or a SIZE:ROOT', async () => {
    const printed = succeeded(await pasted(VERIFY));
    expect(printed).toContain(`size      ${PLANTS.length}\n`);
    expect(printed).toContain(`expected  the log begins with ${expectedRoot}\n`);
    expect(printed).toContain('problems  none\n');
    const unchanged = await pasted(VERIFY.replace('monitor.checkpoint', expectedRoot));
    expect(succeeded(unchanged)).toBe(printed);
    expect((await pasted(VERIFY.replace('monitor.checkpoint', forged(expectedRoot)))).code).toBe(1);
  });

  test('proves that a plant is in the log, and that the log is append-only', async () => {
    writeFileSync(join(dir, 'monitor.checkpoint'), CHECKPOINT_OF_5);
    const [plant = '', ...shown] = succeeded(await pasted(PROVE)).split('\n');
    expect(plant).toMatch(
      RegExp(
        `of "plant-alice/1" with the data {.*} is at index 4 of the log urn:plant-store ${expectedRoot}$`,
      ),
    );
    expect(shown).toEqual([
      expect.stringMatching(
        RegExp(`^the log urn:plant-store 5:[0-9a-f]{64} is the beginning of ${expectedRoot}$`),
      ),
      '',
    ]);
    expect(succeeded(await pasted(RECEIPT))).toBe(`${plant}\n`);
  });
});

test('docs/alarms.md: the job of an auditor checks the log in the environment of systemd', async () => {
  const [unit = ''] = blocks('ini', ALARMS);
  const machine = tempDir();
  chmodSync(machine, 0o755);
  const state = join(machine, 'monitor');
  mkdirSync(state);
  if (JOB_USER) chownSync(state, JOB_USER.uid, JOB_USER.gid);
  const [key = '', token = ''] = await Promise.all(
    [['log-key'], ['token', 'carol', '--scope', 'monitor']].map(async (args) =>
      (await runCli(args, inDir)).stdout.trim(),
    ),
  );
  writeFileSync(join(machine, 'monitor.env'), `URL=${service.url}\nKEY=${key}\nTOKEN=${token}\n`, {
    mode: 0o600,
  });
  mkdirSync(join(machine, 'bin'));
  symlinkSync(NODE, join(machine, 'bin/node'));
  const moved = (text: string) =>
    text
      .replaceAll('/opt/plant-store', ROOT)
      .replaceAll('/etc/', `${machine}/`)
      .replaceAll('/var/lib/', `${machine}/`)
      .replaceAll('/usr/local/', `${machine}/`);
  const check = () => runAsSystemd(unit, moved);
  expect(await check()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^7 {2}|: 7/m) });
  expect(await check()).toMatchObject({ code: 0, stdout: expect.stringMatching(/new events: 0/) });
  expect(existsSync(join(state, 'monitor.checkpoint'))).toBe(true);
});

describe('docs/witnesses.md', () => {
  test('runs a log that a witness cosigns, and a monitor that requires the witness', async () => {
    const [LOG = '', REQUIRE = ''] = blocks('sh', WITNESSES);
    const witness = await new FakeWitness('witness.example/w1').start();
    const [vkey = '', url = ''] = witness.setting.split(' ');
    const used = (block: string) =>
      block
        .replace('witness.example/w1+KEYID+KEY', vkey)
        .replace('http://127.0.0.1:7380', url)
        .replace('--state monitor', '--state cosigned');
    const data = { DATA_DIR: tempDir() };
    const log = start(shell(used(LOG), data));
    const setup = `${SETUP}\nURL=${await log.listening()}`;
    const check = async () => succeeded(await pasted(used(REQUIRE), { setup, env: data }));
    await expect.poll(check).toMatch(/ {2}new events: 0, cosigned: \d+s ago\n$/);
  });
});

describe.runIf(hasPython)('the scripts of docs/tools', () => {
  const proofOf = async (user: string, id: bigint | number) =>
    succeeded(await runCli(['prove', '--user', user, '--id', `${id}`], inDir));

  test('recompute the root of a log with unusual names, and check signatures and a receipt, when pasted', async () => {
    const [signed, signature, root, plant, ...more] = succeeded(await pasted(TOOLS)).split('\n');
    expect([signed, root, ...more]).toEqual([expectedRoot, expectedRoot, '']);
    expect(signature).toBe('Signature Verified Successfully');
    expect(plant).toMatch(
      RegExp(`^\\["plant-alice/1", "[\\da-f-]{36}", {.*}\\] is at index 4 of ${expectedRoot}$`),
    );
    const receipt = readFileSync(join(dir, 'receipt.tlog-proof'), 'utf8');
    writeFileSync(join(dir, 'now.checkpoint'), receipt.replace('\n7\n', '\n8\n'));
    const [, check = '', verify = ''] = TOOLS.split(/(?<=\n)/);
    const damaged = await pasted(check + verify);
    expect(damaged.code).toBe(1);
    expect(damaged.stdout).toMatch(/^Signature Verification Failure$/m);
  });

  test('prove a fork to others, from the evidence of an alarm', async () => {
    const one = new FakeLog(entries(5));
    const two = new FakeLog(entries(7).with(2, toEntry(3, { name: 'Fren' })));
    const http = await serve(one);
    const key = formatVerifierKey(VERIFIER_KEY);
    const args = ['monitor', '--url', http.url, '--key', key, '--state', join(dir, 'monitor'), '--once'];
    for (const file of ['monitor', 'monitor.checkpoint']) rmSync(join(dir, file), { force: true });
    expect(await runCommand(args)).toMatchObject({ code: 0 });
    http.serve(two);
    const { stderr } = await runCommand(args);
    const shape = (line: string) =>
      line
        .replaceAll(/5:[\da-f]+…?/g, '5:…')
        .replace(/; .*/, '')
        .trim();
    expect(shape(stderr)).toBe(shape(blocks('', ALARMS).find((block) => block.startsWith('ALARM')) ?? ''));
    const commands = readFileSync(join(dir, 'monitor.alarm/alarm.txt'), 'utf8').split('\n').slice(3, -1);
    const [other = ''] = /5:[\da-f]{64}(?=;)/.exec(stderr) ?? [];
    const checked = (command: string, head: string) => {
      rmSync(join(dir, 'evidence'), { recursive: true, force: true });
      return pasted(FORK + command.replaceAll(other, head).replaceAll('SIZE:ROOT', head), {
        setup: `KEY=${key}`,
      });
    };
    const proven = await checked(commands.join('\n'), other);
    const [first, last] = [`5:${one.head().root}`, `7:${two.head().root}`];
    expect(succeeded(proven).split('\n')).toEqual([
      first,
      'Signature Verified Successfully',
      last,
      'Signature Verified Successfully',
      `fork: ${last} begins with ${other}, and not with ${first}`,
      '',
    ]);
    expect(blocks('', ALARMS).find((block) => block.startsWith('fork'))).toMatch(
      /^fork: 7:\w+… begins with 5:\w+…, and not with 5:\w+…\n$/,
    );
    expect(succeeded(await checked(CHECK_FORK, other))).toBe(
      `the log ${ORIGIN} ${other} is the beginning of ${last}\n`,
    );
    const swapped = commands.join('\n').replaceAll(first, 'SECOND').replaceAll(other, first);
    expect((await checked(swapped.replaceAll('SECOND', other), first)).stdout).toMatch(/^no proof$/m);
    const notOther = commands.join('\n').replaceAll(first, other);
    expect((await checked(notOther, other)).stderr).toMatch(/^no fork: 5:/m);
    expect((await checked(CHECK_FORK, first)).stderr).toMatch(/the proof is invalid/);
  });

  test('say what they got if it is no proof, no checkpoint or no event', async () => {
    const denied = '{"error":40102,"message":"The token has expired."}\n';
    const got = `but: '${denied.replace('\n', '\\n')}'\n`;
    const refused = (stderr: string) => ({ code: 1, signal: null, stdout: '', stderr });
    for (const [script, expected, ...args] of [
      ['inclusion.py', 'not an inclusion proof'],
      ['consistency.py', 'not a consistency proof', expectedRoot],
      ['signature.py', 'not a checkpoint', succeeded(await runCli(['log-key'], inDir)).trim()],
    ] as const) {
      const [error, empty] = await python(script, [denied, ''], ...args);
      expect(error).toEqual(refused(`${expected}, ${got}`));
      expect(empty).toEqual(refused(`${expected}: the input is empty\n`));
    }
    expect(await python('root.py', [denied])).toEqual([
      refused(`line 1 is not an event of this service, ${got}`),
    ]);
    for (const [script, message] of [
      ['root.py', 'SIZE must be a number of events'],
      ['consistency.py', 'argument SIZE:ROOT: expected a size and a root'],
      ['signature.py', 'KEY must be NAME+ID+KEY'],
    ] as const) {
      const [ended] = await python(script, [''], 'denied');
      expect(ended).toMatchObject({ code: 2, stdout: '' });
      expect(ended?.stderr).toContain(message);
      expect(ended?.stderr).toContain("'denied'");
    }
  });

  test('show, when pasted with an invalid token, the error and no result of an earlier run', async () => {
    expect(succeeded(await pasted(TOOLS))).toContain('Signature Verified Successfully');
    const { stdout, stderr } = await pasted(TOOLS, { setup: `${SETUP}\nTOKEN=expired` });
    expect(stderr).toMatch(/^curl: \(22\) .*401/m);
    expect(stderr).toMatch(/^not a checkpoint, but: .*"error":40102/m);
    expect(stderr).toMatch(/SIZE must be a number of events, such as 7, but is ''/);
    expect(stdout).toMatch(/^\["plant-alice\/1".*\n$/); // the receipt, which is still valid
  });

  test('check the consistency proofs of all sizes', async () => {
    const lines = succeeded(await runCli(['replay'], inDir)).split(/(?<=\n)/);
    const logs = lines.map((_, i) => `${lines.slice(0, i + 1).join('')}{"end":"0"}\n`);
    const heads = (await python('root.py', logs)).map((ended) => succeeded(ended).trim());
    expect(heads.at(-1)).toBe(expectedRoot);
    const { origin, key } = loadExistingLogKey(readConfig(inDir));
    using tree = new SavedTree(VIEWS.merkleTree.file(service.dir));
    const checkpoint = (head: string) => {
      const [size, root = ''] = head.split(':');
      const signed = { size: Number(size), root };
      return { ...signed, origin, note: signCheckpoint(signed, { origin, key }) };
    };
    for (const [i, head] of heads.slice(0, -1).entries()) {
      const later = heads.slice(i + 1);
      const proofs = await Array.fromAsync(later, (one) =>
        proveConsistency(i + 1, checkpoint(one), tree.readTile),
      );
      const proven = await python('consistency.py', proofs, head);
      expect(proven.map(succeeded)).toEqual(later.map((one) => `${head} is the beginning of ${one}\n`));
      const refuted = await python('consistency.py', proofs, forged(head));
      for (const ended of refuted) expectRefuted(ended);
    }
  });

  test('compute the root that verify prints after an erasure, and read the receipt of its record', async () => {
    const erased = { DATA_DIR: tempDir() };
    expect((await runCli(['backup', join(erased.DATA_DIR, 'log.db')], inDir)).code).toBe(0);
    expect(await runCli(['erase', 'alice', '--yes'], erased)).toMatchObject({
      stdout: 'erased 3 events; records: 7\n',
    });
    const lines = succeeded(await runCli(['replay', '--end'], erased));
    expect(lines).not.toContain('alice');
    const printed = succeeded(await runCli(['verify', '--expect', expectedRoot], erased));
    const root = /^expect +(\S+)$/m.exec(printed)?.[1] ?? '';
    expect(printed).toContain('erased    3 events (1 record)\n');
    const result = { code: 0, signal: null, stdout: `${root}\n`, stderr: 'erased: 3 events, 1 record\n' };
    expect(await python('root.py', [lines])).toEqual([result]);
    const other = await startService({ ...erased, MERKLE_TREE: 'on' });
    await checkpointOf(8, other.as('carol', 'audit'));
    const receipt = await (await other.as('dana', 'erase').request('/proofs/erasures?index=7')).text();
    const [read] = await python('inclusion.py', [receipt]);
    expect(read?.stdout).toBe(`record 7 names 3 events (0, 2, 4) as erased, in ${root}\n`);
  });

  test('accept the proof of every plant, and reject damaged proofs', async () => {
    const proofs = await Array.fromAsync(PLANTS, ([user, id]) => proofOf(user, id));
    for (const [i, checked] of (await python('inclusion.py', proofs)).entries())
      expect(succeeded(checked)).toMatch(RegExp(` is at index ${i} of ${expectedRoot}\n$`));
    const [proof = ''] = proofs;
    const [, extra = '', , hash = ''] = proof.split('\n');
    const entry = Buffer.from(extra.slice('extra '.length), 'base64').toString();
    const damaged = [
      proof.replace(extra, `extra ${Buffer.from(entry.replace('Fern', 'Farn')).toString('base64')}`),
      proof.replace('index 0', 'index 1'),
      proof.replace('index 0', 'index 7'),
      proof.replace('\n7\n', '\n9\n'),
      proof.replace(`${hash}\n`, ''),
      proof.replace(hash, `${hash}\n${hash}`),
      proof.replace(/(index 0\n)(.{44}\n)+/, '$1'),
    ];
    for (const ended of await python('inclusion.py', damaged)) expectRefuted(ended);
  });
});

const expectRefuted = (ended: Awaited<ReturnType<typeof run>>) =>
  expect(ended).toEqual({ code: 1, signal: null, stdout: 'no proof\n', stderr: '' });

/** The root with another last digit. */
const forged = (root: string) => root.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'));

/** A shell in the directory, with the log. */
function shell(block: string, env = {}) {
  const script = `cd '${dir}'\n${block.replaceAll('http://127.0.0.1:3000', service.url)}`;
  return { command: ['sh', '-c', script], env: { ...inDir, ...env } };
}

/** Runs commands of a page to their end, after those that set the variables. */
const pasted = (block: string, { setup = SETUP, env = {} } = {}) => run(shell(`${setup}\n${block}`, env));

/** Runs a script on each input. */
const python = (file: string, inputs: string[], ...args: string[]) =>
  Array.fromAsync(inputs, (text) =>
    run({ command: ['python3', join(ROOT, 'docs/tools', file), ...args] }, text),
  );
