import {
  cpSync,
  existsSync,
  globSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { commandLine } from '../../src/cli/commandLine.ts';
import { VIEWS } from '../../src/views.ts';
import { JOB_USER, runAsCron, runAsSystemd } from '../support/jobs.ts';
import { buildOverlay, hasKustomize } from '../support/kustomize.ts';
import { machine } from '../support/machine.ts';
import { shellBlocksOf } from '../support/markdown.ts';
import { canRun, ROOT, run, start } from '../support/process.ts';
import { client } from '../support/service.ts';

// The commands of docs/deploying.md, in order, in a shell.

const PAGE = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8');
const COMMANDS = commandLine([], { serve: async () => {}, run: async () => {} }).commands.map((one) =>
  one.name(),
);

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
    `useradd --system --home-dir ${dir}/var/lib/plant-store --shell /usr/sbin/nologin plant-store`,
    'npm ci --omit=dev',
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

test('systemd: the checkout of an installer whose umask is 077 is readable for the user of the service', async () => {
  const { checkout, blocks, paste, createDataDir } = machine('systemd');
  const [install = ''] = blocks;
  await run({ command: ['chmod', '-R', 'go-rwx', checkout] });
  await paste([install]);
  const files = globSync('{bin,docs,package.json,packages,projections,src}{,/**}', { cwd: checkout });
  expect(files.length).toBeGreaterThan(300);
  const modes = ['', 'node_modules', ...files].map((file) => statSync(join(checkout, file)));
  expect(
    modes.filter(
      (stats) => (stats.mode & 0o044) !== 0o044 || (stats.isDirectory() && (stats.mode & 0o011) !== 0o011),
    ),
  ).toEqual([]);
  const command = [join(checkout, 'bin/plant-store')];
  const service = start({ command, env: { ...IN_UNIT, DATA_DIR: createDataDir(), DOCS: 'on' }, ...JOB_USER });
  expect((await fetch(`${await service.listening()}/docs`)).status).toBe(200);
});

const BACKUP_PAGE = readFileSync(join(ROOT, 'docs/backup.md'), 'utf8');
const BACKUP_UNIT = readFileSync(join(ROOT, 'deploy/systemd/plant-store-backup.service'), 'utf8');

test('systemd: the jobs of a fresh service end with 0 in the environments of systemd and cron', async () => {
  const { blocks, paste, dir, moved, createDataDir } = machine('systemd');
  const [schedule = ''] = shellBlocksOf(BACKUP_PAGE).filter((block) => block.includes('backup.timer'));
  await paste([blocks[0] ?? '']);
  expect(await paste([schedule])).toEqual([
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
  writeFileSync(backup, 'another file');
  expect(await runAsSystemd(BACKUP_UNIT, moved)).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^size +0\n.*^problems +none$/ms),
  });
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
  for (const name of ['erased', 'key.json', 'log-key.json'])
    cpSync(join(data, name), join(other.checkout, name));
  cpSync(backup, join(other.checkout, 'copy.db'));
  expect(await other.paste([lost])).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^expected +the log begins with 1:/),
      expect.stringMatching(/^problems +none$/),
    ]),
  );
  expect(other.read(`var/lib/plant-store/${signed}`)).toBe(home.read(`var/lib/plant-store/${signed}`));
});

test('the build of the image compiles what the service loads', async () => {
  const { dir, checkout } = machine('Container');
  symlinkSync(join(checkout, 'bin/plant-store'), join(dir, 'bin/plant-store'));
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, script = ''] = /^RUN (DATA_DIR=.*\\\n.*)$/m.exec(dockerfile) ?? [];
  const shell = `PATH='${dir}/bin:'$PATH; ${script.replaceAll('/tmp/', `${dir}/`)}`;
  const cache = join(dir, 'cache');
  const env = { NODE_COMPILE_CACHE: cache, DOCS: 'on' };
  expect(await run({ env, command: ['sh', '-c', shell] })).toMatchObject({ code: 0 });
  expect(globSync('**', { cwd: cache }).length).toBeGreaterThan(200);
  expect(existsSync(join(dir, 'lines'))).toBe(false);
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
      (block) => RegExp(`^${program} `, 'm').test(block) && block.includes('copy.db'),
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

describe('Kubernetes', () => {
  const objectsOf = (file: string) =>
    parseAllDocuments(readFileSync(join(ROOT, 'deploy/kubernetes', file), 'utf8')).map((one) => one.toJS());
  const [workload] = objectsOf('sqlite/plant-store.yaml');
  const [, cronJob] = objectsOf('sqlite/backup.yaml');

  test('the command of the nightly job backs up a fresh log, and verifies it', async () => {
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
    writeFileSync(join(dir, 'copy.db'), 'another file');
    const failing = await paste([`( ${command}\n) || echo failed\n`], { '/backup/': `${dir}/` }, env);
    expect(failing).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^size +0$/),
        expect.stringMatching(/^problems +none$/),
        'failed',
      ]),
    );
  });

  test.each(['sqlite', 'eventstoredb'])(
    'the overlay has image, settings and namespace of %s',
    async (store) => {
      const { checkout, blocks, paste } = machine('Kubernetes');
      const calls = await paste(blocks.slice(0, 1), { 'STORE=sqlite': `STORE=${store}` });
      const overlay = parse(readFileSync(join(checkout, 'overlay/kustomization.yaml'), 'utf8'));
      expect(overlay.resources).toEqual([`../deploy/kubernetes/${store}`]);
      const [{ name, newName, newTag }] = overlay.images;
      expect([name, overlay.configMapGenerator[0].name]).toEqual(['plant-store', 'plant-store']); // as in the base
      expect(calls).toContain(`docker push ${newName}:${newTag}`);
      expect(calls).toContain(`kubectl create namespace ${overlay.namespace}`);
      expect(overlay.configMapGenerator[0].literals).toEqual(['EVENT_SOURCE=https://plants.example']);
    },
  );

  test.runIf(hasKustomize).each([
    ['sqlite', ['StatefulSet', 'CronJob']],
    ['eventstoredb', ['Deployment']],
  ])('with the overlay, everything of %s has image, settings and namespace', async (store, kinds) => {
    const { checkout, blocks, paste } = machine('Kubernetes');
    await paste(blocks.slice(0, 1), { 'STORE=sqlite': `STORE=${store}` });
    const { objects, images, settingsNames } = await buildOverlay(join(checkout, 'overlay'));
    expect(new Set(images)).toEqual(new Set(['registry.example/plant-store:2.0.0']));
    const [settings, ...others] = objects.filter(({ kind }) => kind === 'ConfigMap');
    expect([settings.data, others]).toEqual([{ EVENT_SOURCE: 'https://plants.example' }, []]);
    expect(settingsNames).toEqual(kinds.map(() => settings.metadata.name));
    expect(objects.map(({ kind }) => kind)).toEqual(expect.arrayContaining(kinds));
    expect(new Set(objects.map(({ metadata }) => metadata.namespace))).toEqual(new Set(['plant-store']));
  });

  test('what the commands need is created', async () => {
    const { checkout, paste } = machine('Kubernetes');
    writeFileSync(join(checkout, 'ca.crt'), '');
    const calls = await paste();
    expect(calls).toContain('kubectl apply -k overlay');
    const [nightly] = await paste(shellBlocksOf(BACKUP_PAGE).filter((block) => block.includes('cronjob/')));
    expect(nightly).toContain(` --from=cronjob/${cronJob.metadata.name} `);
    const { kind, metadata } = workload;
    expect(calls).toContain(`kubectl -n plant-store rollout status ${kind.toLowerCase()}/${metadata.name}`);
    expect(calls).toContain(`kubectl -n plant-store exec ${metadata.name}-0 -- plant-store token alice`);
    expectCommands(calls, /^kubectl .*exec \S+ -- plant-store (\S+)/);
    const secret =
      calls.find((call) => call.startsWith('kubectl -n plant-store create secret generic plant-store ')) ??
      '';
    const files = [...secret.matchAll(/--from-file=(\S+)/g)].map(([, file = '']) => file);
    for (const file of files) expect([file, existsSync(join(checkout, file))]).toEqual([file, true]);
    const manifest = readFileSync(join(ROOT, 'deploy/kubernetes/eventstoredb/plant-store.yaml'), 'utf8');
    for (const file of files) expect(manifest).toContain(`/secret/${file.replace('keys/', '')}`);
    expect(secret).toContain('--from-literal=eventstoredb-url=esdb://');
    expect(manifest).toContain('key: eventstoredb-url');
  });

  test('what runs while the service is stopped has image and settings of the instance', async () => {
    const { paste, stub } = machine('Kubernetes');
    // What it is asked for, it answers with the question.
    stub('kubectl', `[ "$3" = get ] && echo "\\"\${6#jsonpath=}\\"" || echo $(echo "$*")`);
    const [restore = ''] = shellBlocksOf(BACKUP_PAGE).filter((block) => block.includes(' run restore '));
    const calls = await paste([restore.replace('<copy.db', '</dev/null')]);
    const [, image = '', overrides = ''] = calls.flatMap(
      (call) => / --image=(\S+) .* --overrides=(.*) --command /.exec(call) ?? [],
    );
    const asked = (path: string) => path.match(/\w+/g)?.reduce((value, key) => value[key], workload);
    expect(asked(JSON.parse(image))).toBe('plant-store');
    const [{ envFrom }] = JSON.parse(overrides).spec.containers;
    expect(asked(envFrom)).toEqual([{ configMapRef: { name: 'plant-store' } }]);
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
