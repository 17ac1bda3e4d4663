import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { commandLine } from '../../src/cli/commandLine.ts';
import { VIEWS } from '../../src/views.ts';
import { createCheckout } from '../support/checkout.ts';
import { JOB_USER, runAsCron, runAsSystemd } from '../support/jobs.ts';
import { shellBlocksOf } from '../support/markdown.ts';
import { canRun, NODE, ROOT, run, start } from '../support/process.ts';
import { client } from '../support/service.ts';

// The commands of docs/deploying.md, in order, in a shell. What would change the machine, or needs a cluster or containers, is
// a stub that prints how it was called: of those commands, only the form is tested. As root, commands and jobs really run as
// another user, one that exists.

const PAGE = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8');
const COMMANDS = commandLine([], { serve: async () => {}, run: async () => {} }).commands.map((one) =>
  one.name(),
);

/** A checkout, in which the blocks of a section are pasted, and directories in place of /etc and /var/lib. */
function machine(section: string) {
  const dir = tempDir();
  const checkout = join(dir, 'plant-store');
  const dirs = [
    'bin',
    'etc/systemd/system',
    'usr/local/bin',
    'usr/local/sbin',
    'var/lib',
    'var/backups',
    'plant-store',
  ];
  for (const name of dirs) mkdirSync(join(dir, name), { recursive: true });
  createCheckout(checkout);
  // Directories of its own, whose modes the commands change.
  for (const name of ['packages', 'node_modules']) rmSync(join(checkout, name));
  cpSync(join(ROOT, 'packages'), join(checkout, 'packages'), { recursive: true });
  mkdirSync(join(checkout, 'node_modules'));
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    symlinkSync(join(ROOT, 'node_modules', name), join(checkout, 'node_modules', name));
  cpSync(join(ROOT, 'deploy'), join(checkout, 'deploy'), { recursive: true });
  chmodSync(dir, 0o755);
  symlinkSync(NODE, join(dir, 'usr/local/bin/node'));
  const stub = (name: string, script: string, where = 'bin') => {
    writeFileSync(join(dir, where, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(dir, where, name), 0o755);
  };
  for (const name of ['npm', 'useradd', 'systemctl', 'docker', 'kubectl']) stub(name, `echo "${name} $*"`);
  const asUser: Record<string, string> = JOB_USER
    ? {
        '-o plant-store -g plant-store': `-o ${JOB_USER.uid} -g ${JOB_USER.gid}`,
        'runuser -u plant-store ': `runuser -u ${JOB_USER.name} `,
      }
    : {};
  if (!JOB_USER) {
    // Only root can give files to another user, and be one.
    const withoutOwner =
      'for arg do shift; case $arg in -o | -g | plant-store) ;; *) set -- "$@" "$arg" ;; esac; done';
    stub('install', `${withoutOwner}; exec /usr/bin/install "$@"`);
    stub('runuser', '[ "$1 $2 $3" = "-u plant-store --" ] && shift 3 && exec "$@"', 'usr/local/sbin');
  }
  const blocks = shellBlocksOf(PAGE, section);
  expect(blocks).not.toEqual([]);
  /** A text with the directories of this machine. */
  const moved = (text: string, more: Record<string, string> = {}): string =>
    Object.entries({
      '/opt/plant-store': checkout,
      '/etc/': `${dir}/etc/`,
      '/usr/local/': `${dir}/usr/local/`,
      '/var/lib/': `${dir}/var/lib/`,
      '/var/backups/': `${dir}/var/backups/`,
      ...more,
    }).reduce((to, [from, by]) => to.replaceAll(from, by), text);
  const data = join(dir, 'var/lib/plant-store');
  return {
    dir,
    checkout,
    blocks,
    stub,
    moved,
    /** The data directory, as systemd creates it. */
    createDataDir(): string {
      mkdirSync(data, { mode: 0o700 });
      if (JOB_USER) chownSync(data, JOB_USER.uid, JOB_USER.gid);
      return data;
    },
    /** Pastes blocks into the shell of an installer with the umask 077; returns what they print, line by line. */
    async paste(pasted = blocks, replaced: Record<string, string> = {}, env = {}): Promise<string[]> {
      const script = moved(pasted.join(''), { ...asUser, ...replaced });
      const shell = `umask 077 && cd '${checkout}' && PATH='${dir}/bin:${dir}/usr/local/sbin:'$PATH && set -e\n${script}`;
      const { code, stdout, stderr } = await run({ env, command: ['sh', '-c', shell] });
      expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
      return stdout.trimEnd().split('\n');
    },
    read: (file: string) => readFileSync(join(dir, file), 'utf8'),
  };
}

const IN_UNIT = { EVENT_SOURCE: 'https://plants.example', MERKLE_TREE: 'on' };

/** Checks that each command of the service that a call runs elsewhere exists. */
function expectCommands(calls: string[], pattern: RegExp): void {
  const run = calls.flatMap((call) => pattern.exec(call)?.slice(1) ?? []);
  expect(run).not.toEqual([]);
  for (const command of run) expect(COMMANDS).toContain(command);
}

test('systemd: the unit and its settings are installed, and a token of the command is accepted', async () => {
  const { dir, blocks, paste, read, createDataDir } = machine('systemd');
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
  const service = start({ env: { ...IN_UNIT, DATA_DIR: createDataDir() }, ...JOB_USER });
  const url = await service.listening();
  const [, response] = /The response is `(.*)`\./.exec(PAGE) ?? [];
  expect(await paste([use], { 'http://127.0.0.1:3000': url })).toEqual([response]);
  await service.terminate();
});

test('systemd: another user can read the checkout of an installer whose umask is 077', async () => {
  const { checkout, blocks, paste } = machine('systemd');
  const [install = ''] = blocks;
  await run({ command: ['chmod', '-R', 'go-rwx', checkout] });
  await paste([install]);
  const files = globSync('{bin,package.json,packages,projections,src}{,/**}', { cwd: checkout });
  expect(files.length).toBeGreaterThan(300);
  const modes = ['', 'node_modules', ...files].map((file) => statSync(join(checkout, file)));
  expect(
    modes.filter(
      (stats) => (stats.mode & 0o044) !== 0o044 || (stats.isDirectory() && (stats.mode & 0o011) !== 0o011),
    ),
  ).toEqual([]);
});

const BACKUP_PAGE = readFileSync(join(ROOT, 'docs/backup.md'), 'utf8');
const BACKUP_UNIT = readFileSync(join(ROOT, 'deploy/systemd/plant-store-backup.service'), 'utf8');

test('systemd: the jobs of a fresh service end with 0 in the environments of systemd and cron', async () => {
  const { blocks, paste, dir, moved, createDataDir } = machine('systemd');
  const [schedule = ''] = shellBlocksOf(BACKUP_PAGE).filter((block) => block.includes('/etc/systemd/'));
  await paste([blocks[0] ?? '']);
  expect(await paste([schedule])).toEqual([
    'systemctl daemon-reload',
    'systemctl enable --now plant-store-backup.timer',
    'systemctl start plant-store-backup',
  ]);
  expect(globSync('etc/systemd/system/plant-store-backup.*', { cwd: dir })).toHaveLength(2);
  const service = start({ env: { ...IN_UNIT, DATA_DIR: createDataDir() }, ...JOB_USER });
  await service.listening();
  const backup = join(dir, 'var/backups/plant-store/copy.db');
  const done = { code: 0, stdout: expect.stringMatching(/^0:[\da-f]{64}\nsize +0\n.*^problems +none$/ms) };
  expect(await runAsSystemd(BACKUP_UNIT, moved)).toMatchObject(done);
  expect(statSync(backup)).toMatchObject({ mode: 0o100600, ...(JOB_USER && { uid: JOB_USER.uid }) });
  const command = moved('/usr/local/sbin/plant-store');
  const line = `${command} backup ${backup} && ${command} verify`;
  expect(await runAsCron(line)).toMatchObject(done);
});

test('systemd: a backup is restored, here and on another machine', async () => {
  const blocks = shellBlocksOf(BACKUP_PAGE);
  const [schedule = '', restore = '', lost = ''] = blocks.filter(
    (block) => block.includes('/var/lib/') || block.includes('/var/backups/'),
  );
  const installs = [...blocks.join('').matchAll(/^install .*(?:\/var\/|\$DATA).*$/gm)];
  expect(installs).toHaveLength(5);
  for (const [line] of installs) expect(line).toMatch(/ (-o plant-store -g plant-store|\$AS) /);
  const home = machine('systemd');
  const other = machine('systemd');
  for (const { blocks, paste, dir } of [home, other]) {
    await paste([`${blocks[0]}echo MERKLE_TREE=on >>/etc/plant-store.env\n`]);
    expect(existsSync(join(dir, 'var/lib/plant-store'))).toBe(false);
  }
  const data = home.createDataDir();
  const service = start({ env: { ...IN_UNIT, DATA_DIR: data }, ...JOB_USER });
  const url = await service.listening();
  const [token = ''] = await home.paste(['plant-store token alice --scope audit']);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  await fetch(`${url}/plants`, { method: 'POST', headers, body: '{"id":1,"name":"Fern"}' });
  await expect.poll(async () => (await fetch(`${url}/checkpoint`, { headers })).text()).toMatch(/\n1\n/);
  await home.paste([schedule]);
  const backup = join(home.dir, 'var/backups/plant-store/copy.db');
  expect((await runAsSystemd(BACKUP_UNIT, home.moved)).stdout).toMatch(
    /^1:[\da-f]{64}\nsize +1\n.*^problems +none$/ms,
  );
  await service.terminate();

  cpSync(backup, join(home.checkout, 'copy.db'));
  expect(await home.paste([restore])).toEqual(
    expect.arrayContaining(['systemctl stop plant-store', expect.stringMatching(/^problems +none$/)]),
  );
  const [signed = ''] = globSync('checkpoint-????????', { cwd: data });
  cpSync(join(data, signed), join(other.checkout, 'monitor.checkpoint'));
  for (const name of ['key.json', 'log-key.json']) cpSync(join(data, name), join(other.checkout, name));
  cpSync(backup, join(other.checkout, 'copy.db'));
  expect(await other.paste([lost])).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^expected +the log begins with 1:/),
      expect.stringMatching(/^problems +none$/),
    ]),
  );
  expect(other.read(`var/lib/plant-store/${signed}`)).toBe(home.read(`var/lib/plant-store/${signed}`));
});

describe.each(['docker', 'kubectl'])('with %s', (program) => {
  /** Runs what follows the name of a container or pod in place of the container; a copy out of it is a copy. */
  const IN_PLACE = `
case "$*" in
  *' -- '*) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
  exec*) shift 2; exec "$@" ;;
  run*) while [ "$1" != plant-store ]; do shift; done; shift; exec "$@" ;;
  cp*) exec cp "\${2#plants:}" "$3" ;;
  *) echo "${program} $*" ;;
esac`;

  test('a backup is copied out of the container, and restored into its volume', async () => {
    const [backup = '', restore = ''] = shellBlocksOf(BACKUP_PAGE).filter(
      (block) => block.startsWith(program) && block.includes('copy.db'),
    );
    const { dir, checkout, paste, stub } = machine('Container');
    stub(program, IN_PLACE);
    symlinkSync(join(checkout, 'bin/plant-store'), join(dir, 'bin/plant-store'));
    const data = join(dir, 'volume');
    const inVolume = { '/data/': `${data}/` };
    const env = { DATA_DIR: data };
    const home = start({ env });
    const url = await home.listening();
    const as = client(url, data);
    await as('alice').create(1, { name: 'Fern' });
    expect(await paste([backup], inVolume, env)).toEqual([expect.stringMatching(/^1:[\da-f]{64}$/)]);
    await as('alice').create(2, { name: 'Moss' });
    await home.terminate();
    for (const { file } of Object.values(VIEWS)) rmSync(file(data), { force: true }); // they are ahead of the backup
    expect(await paste([restore], inVolume, env)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^size +1$/), expect.stringMatching(/^problems +none$/)]),
    );
    expect(statSync(join(data, 'log.db')).mode & 0o777).toBe(0o600);
  });
});

/** Applies the manifest of the nightly backup as docs/backup.md says. */
async function pasteSchedule() {
  const { paste } = machine('Kubernetes');
  const calls = await paste(shellBlocksOf(BACKUP_PAGE).filter((block) => block.includes('backup.yaml')));
  const [, manifest = ''] = /^kubectl -n plant-store apply -f (\S+)$/.exec(calls[0] ?? '') ?? [];
  const cronJob = parseAllDocuments(readFileSync(join(ROOT, manifest), 'utf8'))[1]?.toJS();
  return { calls, manifest, cronJob };
}

describe('Kubernetes', () => {
  test('the command of the nightly job backs up a fresh log, and verifies it', async () => {
    const { cronJob } = await pasteSchedule();
    const { dir, checkout, paste } = machine('Kubernetes');
    symlinkSync(join(checkout, 'bin/plant-store'), join(dir, 'bin/plant-store'));
    const data = tempDir();
    const service = start({ env: { DATA_DIR: data, MERKLE_TREE: 'on' } });
    await service.listening();
    const [container] = cronJob.spec.jobTemplate.spec.template.spec.containers;
    const [shell, option, command] = container.command;
    expect([shell, option]).toEqual(['sh', '-c']);
    const env = { DATA_DIR: data, MERKLE_TREE: 'on' };
    expect((await paste([`${command}\n`], { '/backup/': `${dir}/` }, env)).slice(0, 2)).toEqual([
      expect.stringMatching(/^0:[\da-f]{64}$/),
      expect.stringMatching(/^size +0$/),
    ]);
    expect(existsSync(join(dir, 'copy.db'))).toBe(true);
  });

  test('both manifests get the image and the name, and all that they need is created', async () => {
    const { checkout, paste } = machine('Kubernetes');
    writeFileSync(join(checkout, 'ca.crt'), '');
    const calls = await paste(undefined, { 'IMAGE=registry.example': 'IMAGE=mine.example' });
    const applied = calls.flatMap((call) => /^kubectl -n plant-store apply -f (\S+)$/.exec(call)?.[1] ?? []);
    const nightly = await pasteSchedule();
    const all = [...applied, nightly.manifest];
    expect(all.toSorted()).toEqual(globSync('deploy/kubernetes/*.yaml', { cwd: ROOT }).sort());
    expect(nightly.calls[1]).toContain(` --from=cronjob/${nightly.cronJob.metadata.name} `);
    for (const file of all) {
      const text = readFileSync(join(checkout, file), 'utf8');
      expect(text).toContain("{ name: EVENT_SOURCE, value: 'https://plants.example' }");
      expect([...text.matchAll(/image: (\S+)/g)].map(([, image]) => image)).not.toContain(
        'registry.example/plant-store:2.0.0',
      );
    }
    const [workload] = parseAllDocuments(
      readFileSync(join(checkout, 'deploy/kubernetes/sqlite.yaml'), 'utf8'),
    );
    const { kind, metadata } = workload?.toJS() ?? {};
    expect(calls).toContain(`kubectl -n plant-store rollout status ${kind.toLowerCase()}/${metadata.name}`);
    expect(calls).toContain(`kubectl -n plant-store exec ${metadata.name}-0 -- plant-store token alice`);
    expectCommands(calls, /^kubectl .*exec \S+ -- plant-store (\S+)/);
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
