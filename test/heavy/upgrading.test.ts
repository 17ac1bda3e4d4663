import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { JOB_USER, runAsCron, runAsSystemd, startAsSystemd } from '../support/jobs.ts';
import { buildOverlay, hasKustomize } from '../support/kustomize.ts';
import { machine } from '../support/machine.ts';
import { shellBlocksOf } from '../support/markdown.ts';
import { canRun, ROOT, run, start } from '../support/process.ts';
import { checkpointOf, client } from '../support/service.ts';

// version1.tar.gz is a machine on which version 1 was installed as its documentation says, at commit e7ce770b: its unit, its
// command, its lines for cron, and a data directory with two plants each of alice and bob, closed and signed.

const ARCHIVE = join(import.meta.dirname, 'version1.tar.gz');
const PAGE = readFileSync(join(ROOT, 'docs/upgrading.md'), 'utf8');
const [SYSTEMD = '', CONTAINER = ''] = shellBlocksOf(PAGE, 'From version 1 to 2');
const PLANTS = [
  { name: 'Fern of alice', tag: 'indoor' },
  { name: 'Fern of alice', tag: 'indoor' },
];
/** Version 1's signature of the four events. */
const OLD_CHECKPOINT = 'checkpoint-5b5da6d2';

/** A machine with version 1 whose checkout is of this version. */
function oldMachine(section: string) {
  const upgraded = machine(section, 'upgrading.md');
  const { dir } = upgraded;
  expect(spawnSync('tar', ['-xzf', ARCHIVE, '-C', dir]).status).toBe(0);
  const data = join(dir, 'var/lib/plant-store');
  if (JOB_USER) spawnSync('chown', ['-R', `${JOB_USER.uid}:${JOB_USER.gid}`, data]);
  return { ...upgraded, data };
}

/** Checks that a service has the plants of version 1, and signs all four events as the log of this version. */
async function expectUpgraded(url: string, data: string): Promise<void> {
  const as = client(url, data);
  expect(await as('alice').list()).toEqual(PLANTS);
  const [origin, size] = (await checkpointOf(4, as('carol', 'audit'))).split('\n');
  expect([origin, size]).toEqual(['plants.example/log-2', '4']);
}

describe.runIf(canRun('the upgrade from version 1', ['tar', '--version']))('from version 1', () => {
  test('the unit and the command that version 1 has installed start a file that is gone', () => {
    const { checkout, read } = oldMachine('systemd');
    const [, main = ''] = /^ExecStart=.* (\S+)$/m.exec(read('etc/systemd/system/plant-store.service')) ?? [];
    expect(read('usr/local/sbin/plant-store')).toContain(` ${main} `);
    expect([main, existsSync(join(checkout, main))]).toEqual(['src/cli/main.js', false]);
  });

  test('without new settings, a start says what to set', async () => {
    const { data } = oldMachine('systemd');
    const env = { DATA_DIR: data, EVENT_SOURCE: 'https://plants.example', MERKLE_TREE: 'on' };
    const { code, stderr } = await run({ env, ...JOB_USER });
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('set a new LOG_KEY_FILE and a new LOG_ORIGIN'),
    ]);
    expect(PAGE.replaceAll('\n', ' ')).toContain('it has signed the tree of version 1');
  });

  test('systemd: the pasted commands install the unit and the command anew, and the service has all plants', async () => {
    const { dir, blocks, paste, read, moved, data } = oldMachine('systemd');
    const [stop = '', install = ''] = blocks;
    const [start, ...later] = install.split(/^(?=curl )/m);
    expect(await paste([stop, SYSTEMD, start ?? ''])).toEqual([
      'systemctl stop plant-store',
      'git pull',
      'npm ci --omit=dev',
      'systemctl daemon-reload',
      'systemctl start plant-store',
    ]);
    expect(globSync('etc/cron.d/*', { cwd: dir })).toEqual([]);
    appendFileSync(join(dir, 'etc/plant-store.env'), 'PORT=0\n');
    const service = startAsSystemd(read('etc/systemd/system/plant-store.service'), moved);
    const url = await service.listening();
    expect(await paste(later, { 'http://127.0.0.1:3000': url })).toEqual(['{"status":"ready"}']);
    await expectUpgraded(url, data);
    const job = await runAsSystemd(
      readFileSync(join(ROOT, 'deploy/systemd/plant-store-backup.service'), 'utf8'),
      (text) => moved(text).replace(`${dir}/var/backups/plant-store`, data),
    );
    expect(job).toMatchObject({ code: 0, stdout: expect.stringMatching(/^size +4\n.*^problems +none$/ms) });
    const command = moved('/usr/local/sbin/plant-store');
    expect((await runAsCron(`${command} log-key`)).stdout).toMatch(/^plants\.example\/log-2\+/);
    expect(read(`var/lib/plant-store/${OLD_CHECKPOINT}`)).toMatch(/^plants\.example\n4\n/);
  });

  test('in a container: the service with these settings has all plants', async () => {
    const { paste, checkout, data } = oldMachine('Container');
    await paste([CONTAINER]);
    const lines = readFileSync(join(checkout, 'plants.env'), 'utf8').trimEnd().split('\n');
    const env = Object.fromEntries(lines.map((line) => line.replace('/data/', `${data}/`).split('=')));
    const service = start({ env: { ...env, DATA_DIR: data, MERKLE_TREE: 'on' }, ...JOB_USER });
    await expectUpgraded(await service.listening(), data);
  });
});

describe('in Kubernetes', () => {
  const FIRST_START = shellBlocksOf(
    readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8'),
    'Kubernetes',
  ).slice(0, 1);

  test('the pasted commands apply the overlay of the first start, and wait for what it has', async () => {
    const { blocks, paste } = machine('Kubernetes', 'upgrading.md');
    const calls = await paste([...FIRST_START, ...blocks]);
    const [{ kind, metadata }] = parseAllDocuments(
      readFileSync(join(ROOT, 'deploy/kubernetes/sqlite/plant-store.yaml'), 'utf8'),
    ).map((one) => one.toJS());
    expect(calls.slice(-2)).toEqual([
      'kubectl apply -k overlay',
      `kubectl -n plant-store rollout status ${kind.toLowerCase()}/${metadata.name}`,
    ]);
  });

  test.runIf(hasKustomize)('with a new tag, the overlay has the image that was pushed', async () => {
    const { checkout, blocks, paste } = machine('Kubernetes', 'upgrading.md');
    const calls = await paste([...FIRST_START, ...blocks]);
    const [image = '', tag = ''] =
      /^docker push \S+:(\S+)$/.exec(calls.findLast((call) => call.startsWith('docker push ')) ?? '') ?? [];
    const overlay = join(checkout, 'overlay/kustomization.yaml');
    writeFileSync(overlay, readFileSync(overlay, 'utf8').replace(/newTag: '[^']*'/, `newTag: '${tag}'`));
    const { images } = await buildOverlay(dirname(overlay));
    expect(images.map((one) => `docker push ${one}`)).toEqual([image, image]);
  });
});
