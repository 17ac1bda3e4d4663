import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { typed } from './commands/typed.ts';
import { canRun, launch, ROOT, run, start } from './support/process.ts';
import { client, type Plant } from './support/service.ts';

const PAGE = readFileSync(join(ROOT, 'docs/auditing.md'), 'utf8');
const SCRIPTS = (
  JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
).scripts;

const fenced = [...PAGE.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, block]) => ({
  language,
  block,
}));
const blocks = (of: string): string[] =>
  fenced.filter(({ language }) => language === of).map(({ block }) => block as string);
const [GET = '', EXPECT = '', PROVE = '', RECOMPUTE = ''] = blocks('sh');
const [ROOT_PY = '', INCLUSION_PY = ''] = blocks('python');

const GARDEN: [user: string, id: bigint, plant: Plant][] = [
  ['alice', 42n, { name: 'Fern', tag: 'indoor' }],
  ['bob', 42n, { name: '', tag: '' }],
  ['alice', -(2n ** 63n), { name: Array.from({ length: 0x20 }, (_, i) => String.fromCharCode(i)).join('') }],
  ['bob', 2n ** 63n - 1n, { name: 'delete \u007f, next line \u0085, lines \u2028 \u2029 \r\n' }],
  ['alice', 1n, { name: 'quotes "\' and slashes \\ / \\u0041 \\\\', tag: '</script>' }],
  ['bob', 1n, { name: 'emoji 🌱👩‍🌾, \ufeffmark, \ufffd, \uffff', tag: '\u{10ffff}' }],
  ['zoë 🌱/-', 1n, { name: 'e\u0301 and é' }],
];

const hasPython = canRun('the scripts of docs/auditing.md', ['python3', '--version']);

/** Where the files of the page are. */
let dir: string;
let url: string;
/** What verify prints of the log, and what of it an auditor has written down. */
let verdict: string;
let noted: string;
const inDir = () => ({ DATA_DIR: join(dir, 'data') });

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  writeFileSync(join(dir, 'root.py'), ROOT_PY);
  writeFileSync(join(dir, 'inclusion.py'), INCLUSION_PY);
  const server = launch({ env: inDir() });
  try {
    url = await server.listening();
    const as = client(url, inDir().DATA_DIR);
    for (const [user, id, plant] of GARDEN) expect((await as(user).create(id, plant)).status).toBe(200);
  } catch (error) {
    await server.kill();
    throw error;
  }
  return async () => {
    await server.kill();
    rmSync(dir, { recursive: true });
  };
});

beforeAll(async () => {
  const verifying = launch({ command: ['npm', 'run', '-s', 'verify'], env: inDir() });
  try {
    noted = (await verifying.printed(/^expect +(\S+)$/m))[1] as string;
    expect(await verifying.ended).toMatchObject({ code: 0 });
    verdict = verifying.stdout();
  } finally {
    await verifying.kill();
  }
});

describe('docs/auditing.md', () => {
  test('names only commands that exist, and every one for auditors', () => {
    const named = [...PAGE.matchAll(/npm run (?:-s )?([a-z:-]+)/g)].map(([, script]) => script as string);
    for (const script of named) expect(Object.keys(SCRIPTS)).toContain(script);
    const all = ['token', 'replay', 'plants', 'verify', 'rebuild', 'prove', 'check-proof'];
    expect(new Set(named)).toEqual(new Set(all));
  });

  test('names only options that these commands have', async () => {
    const commands = ['token', 'replay', 'plants', 'verify', 'prove'];
    const helps = await Promise.all(commands.map((command) => typed([command, '--help'])));
    const help = helps.map(({ stdout }) => stdout).join('');
    const named = [...PAGE.matchAll(/(?<=[` ])--[a-z]+/g)].map(([option]) => option);
    expect(named.length).toBeGreaterThan(10);
    for (const option of named) expect(help).toMatch(RegExp(`${option}\\b`));
  });

  test('gets the same events over HTTP as on the machine, and the plants as they were', async () => {
    const [token = '', ...ways] = GET.split(/(?<=\n)/);
    const printed = await Promise.all(ways.map((way) => pasted(way.startsWith('curl') ? token + way : way)));
    const [http = '', machine, plants = ''] = printed.map(succeeded);
    expect(http).toBe(machine);
    const events = http.trimEnd().split('\n');
    expect(events.map((line) => JSON.parse(line).data.name)).toEqual(GARDEN.map(([, , { name }]) => name));
    expect(JSON.parse(plants)).toEqual([]); // that was before the first of them
  });

  test('shows what verify prints', () => {
    const labels = (printed = '') => printed.replaceAll(/^(\w+ +).*$/gm, '$1');
    const [shown] = blocks('');
    expect(labels(shown)).toBe(labels(verdict));
    expect(verdict).toContain(`size      ${GARDEN.length}\n`);
    expect(verdict).toContain('faults    none\n');
  });

  test('tells with a note of before whether anything has been changed', async () => {
    const forged = noted.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'));
    const [sound, changed] = await Promise.all([
      pasted(EXPECT.replace('SIZE:ROOT', noted)),
      typed(['verify', '--expect', forged], inDir()),
    ]);
    expect(succeeded(sound)).toMatch(/^faults +none$/m);
    expect(changed.code).toBe(1);
    expect(changed.stdout).toContain(`the first ${GARDEN.length} events are not those that were expected`);
  });

  test('proves what it says of a plant and of the log', async () => {
    const shown = succeeded(await pasted(PROVE)).split('\n');
    expect(shown).toEqual([
      expect.stringMatching(RegExp(`of "plant-alice/42" is number 1 of the log ${noted}$`)),
      expect.stringMatching(RegExp(`^the log 5:[0-9a-f]{64} is the beginning of the log ${noted}$`)),
      '',
    ]);
  });
});

describe.runIf(hasPython)('the scripts of docs/auditing.md', () => {
  const replayed = async (...args: string[]): Promise<string> =>
    succeeded(await typed(['replay', ...args], inDir()));

  test('recompute the root of a log with awkward names, and check a proof, when pasted', async () => {
    const proof = succeeded(await typed(['prove', '--user', 'alice', '--id', '42'], inDir()));
    writeFileSync(join(dir, 'plant.json'), proof);
    const [root = '', plant = ''] = succeeded(await pasted(RECOMPUTE)).split('\n');
    expect(root).toBe(noted);
    expect(plant).toBe(`["plant-alice/42", "${JSON.parse(proof).event.id}"] is number 1 of ${noted}`);
  });

  test('recompute the root of the log of every size', async () => {
    const lines = (await replayed()).split(/(?<=\n)/);
    const sizes = lines.map((_, i) => i + 1);
    const proofs = sizes.map((size) => typed(['prove', '--from', `${size}`], inDir()));
    const roots = (await Promise.all(proofs)).map((proof) => JSON.parse(succeeded(proof)).from.root);
    const computed = sizes.map((size) => python('root.py', lines.slice(0, size).join('')));
    expect((await Promise.all(computed)).map(succeeded)).toEqual(
      sizes.map((size) => `${size}:${roots[size - 1]}\n`),
    );
    const none = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
    expect(succeeded(await python('root.py', ''))).toBe(`0:${none}\n`);
  });

  test('find another root where a name has another letter, or two events are swapped', async () => {
    const events = await replayed();
    const [first = '', second = '', ...rest] = events.split(/(?<=\n)/);
    const changed = [events.replace('Fern', 'Farn'), [second, first, ...rest].join('')];
    for (const text of changed) {
      const root = succeeded(await python('root.py', text));
      expect(root).toMatch(RegExp(`^${GARDEN.length}:[0-9a-f]{64}\n$`));
      expect(root).not.toBe(`${noted}\n`);
    }
  });

  test('accept the proof of every plant, and none that is damaged', async () => {
    const proving = GARDEN.map(([user, id]) => typed(['prove', '--user', user, '--id', `${id}`], inDir()));
    const proofs = (await Promise.all(proving)).map(succeeded);
    const checked = await Promise.all(proofs.map((proof) => python('inclusion.py', proof)));
    for (const [i, one] of checked.entries())
      expect(succeeded(one)).toMatch(RegExp(` is number ${i + 1} of ${noted}\n$`));
    const [proof = ''] = proofs;
    const { path, ...others } = JSON.parse(proof);
    const damaged = [
      proof.replace('Fern', 'Farn'),
      JSON.stringify({ ...others, path, index: 1 }),
      JSON.stringify({ ...others, path, index: 7 }),
      JSON.stringify({
        ...others,
        path,
        root: noted.slice(2).replace(/.$/, (digit) => (digit === '0' ? '1' : '0')),
      }),
      JSON.stringify({ ...others, path: path.slice(1) }),
      JSON.stringify({ ...others, path: [...path, path[0]] }),
      JSON.stringify({ ...others, path: [] }),
    ];
    const refused = await Promise.all(damaged.map((text) => python('inclusion.py', text)));
    expect(refused).toEqual(damaged.map(() => ({ code: 1, stdout: 'no proof\n', stderr: '' })));
  });
});

type Ended = { code: number | null; stdout: string; stderr: string };

function succeeded({ code, stdout, stderr }: Ended): string {
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

/** What the page shows, typed into a shell where the log and the files are. */
function pasted(block: string): Promise<Ended> {
  const script = block
    .replaceAll('http://127.0.0.1:3000', url)
    .replaceAll(/\b[a-z]+\.(?:py|json)\b/g, (file) => `'${join(dir, file)}'`);
  return run({ command: ['sh', '-c', script], env: inDir() });
}

async function python(file: string, input: string): Promise<Ended> {
  const running = start({ command: ['python3', join(dir, file)] });
  running.stdin.end(input);
  const { code } = await running.ended;
  return { code, stdout: running.stdout(), stderr: running.stderr() };
}
