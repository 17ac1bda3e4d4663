import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { shellBlocksOf } from '../support/markdown.ts';
import { canRun, ROOT, run, start } from '../support/process.ts';

// The commands of docs/deploying.md, in order, in a shell. What would change the machine, or needs a cluster or containers, is
// a stub that prints how it was called: of those commands, only the form is tested.

const PAGE = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8');
const COMMANDS = Object.keys(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).scripts);

/** A checkout, in which the blocks of a section are pasted, and directories in place of /etc and /var/lib. */
function machine(section: string) {
  const dir = tempDir();
  const checkout = join(dir, 'plant-store');
  for (const name of ['bin', 'etc/systemd/system', 'var/lib', 'plant-store'])
    mkdirSync(join(dir, name), { recursive: true });
  for (const name of ['package.json', 'node_modules', 'src', 'packages', 'projections'])
    symlinkSync(join(ROOT, name), join(checkout, name));
  cpSync(join(ROOT, 'deploy'), join(checkout, 'deploy'), { recursive: true });
  const stub = (name: string, script: string) => {
    writeFileSync(join(dir, 'bin', name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(dir, 'bin', name), 0o755);
  };
  for (const name of ['npm', 'useradd', 'systemctl', 'docker', 'kubectl']) stub(name, `echo "${name} $*"`);
  stub('runuser', '[ "$1 $2 $3" = "-u plant-store --" ] && shift 3 && exec "$@"');
  const blocks = shellBlocksOf(PAGE, section);
  expect(blocks).not.toEqual([]);
  return {
    dir,
    checkout,
    blocks,
    /** Pastes blocks; returns what they print, line by line. */
    async paste(pasted = blocks, replaced: Record<string, string> = {}): Promise<string[]> {
      let script = pasted.join('');
      const moved = {
        '/opt/plant-store': checkout,
        '/etc/': `${dir}/etc/`,
        '/var/lib/': `${dir}/var/lib/`,
        ...replaced,
      };
      for (const [from, to] of Object.entries(moved)) script = script.replaceAll(from, to);
      const shell = `cd '${checkout}' && PATH='${dir}/bin:'$PATH && set -e\n${script}`;
      const { code, stdout, stderr } = await run({ command: ['sh', '-c', shell] });
      expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
      return stdout.trimEnd().split('\n');
    },
    read: (file: string) => readFileSync(join(dir, file), 'utf8'),
  };
}

/** Checks that each command of the service that a call runs elsewhere exists. */
function expectCommands(calls: string[], pattern: RegExp): void {
  const run = calls.flatMap((call) => pattern.exec(call)?.slice(1) ?? []);
  expect(run).not.toEqual([]);
  for (const command of run) expect(COMMANDS).toContain(command);
}

test('systemd: the unit and its settings are installed, and a token of the command is accepted', async () => {
  const { dir, blocks, paste, read } = machine('systemd');
  const [install = '', use = ''] = blocks;
  expect(await paste([install])).toEqual([
    'npm ci --omit=dev',
    `useradd --system --home-dir ${dir}/var/lib/plant-store --shell /usr/sbin/nologin plant-store`,
    'systemctl daemon-reload',
    'systemctl enable --now plant-store',
  ]);
  expect(read('etc/systemd/system/plant-store.service')).toBe(
    readFileSync(join(ROOT, 'deploy/systemd/plant-store.service'), 'utf8'),
  );
  expect(statSync(join(dir, 'etc/plant-store.env')).mode & 0o777).toBe(0o600);
  expect(read('etc/plant-store.env')).toBe('EVENT_SOURCE=https://plants.example\n');
  mkdirSync(join(dir, 'var/lib/plant-store'), { mode: 0o700 });
  const service = start({
    env: { DATA_DIR: join(dir, 'var/lib/plant-store'), EVENT_SOURCE: 'https://plants.example' },
  });
  const url = await service.listening();
  const [, response] = /The response is `(.*)`\./.exec(PAGE) ?? [];
  expect(await paste([use], { 'http://127.0.0.1:3000': url })).toEqual([response]);
  await service.terminate();
});

test('a container: the token is of the container that was started', async () => {
  const calls = await machine('Container').paste();
  const [, name] = /^docker run .*--name (\S+)/m.exec(calls.join('\n')) ?? [];
  expect(calls.at(-1)).toMatch(RegExp(`^docker exec ${name} plant-store `));
  expectCommands(calls, /^docker exec \S+ plant-store (\S+)/);
});

describe('Kubernetes', () => {
  test('both manifests get the image and the name, and all that they need is created', async () => {
    const { checkout, paste } = machine('Kubernetes');
    writeFileSync(join(checkout, 'ca.crt'), '');
    const calls = await paste(undefined, { 'IMAGE=registry.example': 'IMAGE=mine.example' });
    const applied = calls.flatMap((call) => /^kubectl -n plant-store apply -f (\S+)$/.exec(call)?.[1] ?? []);
    expect(applied).toEqual(globSync('deploy/kubernetes/*.yaml', { cwd: ROOT }).sort().toReversed());
    for (const file of applied) {
      const text = readFileSync(join(checkout, file), 'utf8');
      expect(text).toContain("{ name: EVENT_SOURCE, value: 'https://plants.example' }");
      expect([...text.matchAll(/image: (\S+)/g)].map(([, image]) => image)).not.toContain(
        'registry.example/plant-store:1.0.0',
      );
    }
    const [workload] = parseAllDocuments(
      readFileSync(join(checkout, 'deploy/kubernetes/sqlite.yaml'), 'utf8'),
    );
    const { kind, metadata } = workload?.toJS() ?? {};
    expect(calls).toContain(`kubectl -n plant-store rollout status ${kind.toLowerCase()}/${metadata.name}`);
    expect(calls).toContain(
      `kubectl -n plant-store exec ${metadata.name}-0 -- node src/cli/main.js token alice`,
    );
    expectCommands(calls, /^kubectl .*exec \S+ -- node src\/cli\/main\.js (\S+)/);
    const secret =
      calls.find((call) => call.startsWith('kubectl -n plant-store create secret generic plant-store ')) ??
      '';
    const files = [...secret.matchAll(/--from-file=(\S+)/g)].map(([, file = '']) => file);
    for (const file of files) expect([file, existsSync(join(checkout, file))]).toEqual([file, true]);
    const manifest = readFileSync(join(ROOT, 'deploy/kubernetes/eventstoredb.yaml'), 'utf8');
    for (const file of files) expect(manifest).toContain(`/secret/${file.replace('keys/', '')}`);
    expect(secret).toContain('--from-literal=eventstoredb-url=esdb://');
    expect(manifest).toContain('key: eventstoredb-url');
  });
});

describe.runIf(canRun('the certificates of Compose', ['openssl', 'version']))('Compose', () => {
  test('all settings that it requires are set, and its services exist', async () => {
    const { checkout, paste } = machine('Compose');
    const calls = await paste();
    const text = (file: string) => readFileSync(join(ROOT, file), 'utf8');
    const env = readFileSync(join(checkout, '.env'), 'utf8');
    expect(statSync(join(checkout, '.env')).mode & 0o777).toBe(0o600);
    const [, files = ''] = /^COMPOSE_FILE=(.*)$/m.exec(env) ?? [];
    const texts = files.split(':').map(text);
    for (const [, name] of texts.join('').matchAll(/\$\{(\w+):\?\}/g))
      expect(env).toMatch(RegExp(`^${name}=.+$`, 'm'));
    expect(existsSync(join(checkout, 'certs/proxy/node.pem'))).toBe(true);
    expectCommands(calls, /^docker compose exec \S+ plant-store (\S+)/);
  });
});
