import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readConfig, SETTINGS } from '../src/config.ts';
import { canRun, ROOT, run } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const COMPOSE = parse(textOf('docker-compose.yml'), { merge: true });
const [, DOCKER_ENV = ''] = /^ENV (.*)$/m.exec(textOf('Dockerfile')) ?? [];
const IN_IMAGE = Object.fromEntries(DOCKER_ENV.split(' ').map((setting) => setting.split('=')));

describe('deploy/systemd/plant-store.service', () => {
  const UNIT = textOf('deploy/systemd/plant-store.service');
  const directives = new Map([...UNIT.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]));

  /** What means in a unit what a line of the service in docker-compose.yml means; undefined: none is needed. */
  const AS_IN_COMPOSE: Record<string, [string, string] | undefined> = {
    build: undefined,
    image: undefined,
    pull_policy: undefined,
    healthcheck: undefined, // systemd has none
    logging: undefined, // journald has a limit
    init: undefined, // systemd is process 1
    restart: ['Restart', 'always'],
    stop_grace_period: ['TimeoutStopSec', '10'],
    read_only: ['ProtectSystem', 'strict'],
    tmpfs: ['PrivateTmp', 'yes'],
    cap_drop: ['CapabilityBoundingSet', ''],
    security_opt: ['NoNewPrivileges', 'yes'],
  };

  test('restricts the service as docker-compose.yml does', () => {
    for (const name of Object.keys(COMPOSE['x-service'])) {
      expect(Object.keys(AS_IN_COMPOSE)).toContain(name);
      const [directive, value] = AS_IN_COMPOSE[name] ?? [];
      if (directive) expect([directive, directives.get(directive)]).toEqual([directive, value]);
    }
    expect(directives.has('MemoryDenyWriteExecute')).toBe(false); // V8 could not compile
  });

  test('starts what npm start starts, with a data directory that it may write to', () => {
    const [, command] = /^exec sh (.*)$/.exec(JSON.parse(textOf('package.json')).scripts.start) ?? [];
    expect(directives.get('ExecStart')).toBe(`/opt/plant-store/${command}`);
    const { dataDir } = readConfig({
      DATA_DIR: directives.get('Environment')?.replace('DATA_DIR=', '') ?? '',
    });
    expect(dataDir).toBe(`/var/lib/${directives.get('StateDirectory')}`);
  });

  describe.runIf(canRun('the units of systemd', ['systemd-analyze', '--version']))('systemd-analyze', () => {
    const analyze = (name: string, ...args: string[]) => {
      const dir = tempDir();
      for (const unit of globSync('*.{service,timer}', { cwd: join(ROOT, 'deploy/systemd') })) {
        const text = textOf(`deploy/systemd/${unit}`).replaceAll('/opt/plant-store', ROOT);
        writeFileSync(join(dir, unit), text);
      }
      return run({ command: ['systemd-analyze', ...args, join(dir, name)] });
    };

    test.each(globSync('*.{service,timer}', { cwd: join(ROOT, 'deploy/systemd') }))(
      'accepts %s',
      async (name) => {
        const { code, stdout, stderr } = await analyze(name, 'verify', '--man=no');
        const about = (stdout + stderr).split('\n').filter((line) => line.includes('plant-store'));
        expect([code, about]).toEqual([0, []]);
      },
    );

    test.each([
      ['plant-store.service', 1.6],
      ['plant-store-backup.service', 2.6],
    ])('rates the exposure of %s at most %d of 10', async (name, exposure) => {
      const threshold = `--threshold=${exposure * 10}`;
      const { code, stdout, stderr } = await analyze(name, 'security', '--offline=true', threshold);
      expect([code, stdout.split('\n').at(-2) ?? stderr]).toEqual([0, expect.stringContaining('OK')]);
    });
  });
});

type Volume = { persistentVolumeClaim?: { claimName: string } };
type Probe = { httpGet: { path: string; port: string } };
type Container = {
  name: string;
  image: string;
  envFrom?: object[];
  env?: { name: string; value?: string }[];
  ports?: { name: string; containerPort: number }[];
  securityContext: object;
  resources: { limits: { memory: string } };
  volumeMounts: { name: string; mountPath: string }[];
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
};

const objectsOf = (file: string) =>
  parseAllDocuments(textOf(`deploy/kubernetes/${file}`)).map((document) => document.toJS());

describe.each([
  ['sqlite', []],
  ['eventstoredb', ['EVENTSTOREDB_URL', 'KEY_FILE', 'LOG_KEY_FILE']],
])('deploy/kubernetes/%s', (name, settings) => {
  const [workload] = objectsOf(`${name}/plant-store.yaml`);
  const pod = workload.spec.template.spec;
  const containers: Container[] = [...(pod.initContainers ?? []), ...pod.containers];
  const service: Container = pod.containers[0];

  test('is a base of all its files', () => {
    const { resources } = parse(textOf(`deploy/kubernetes/${name}/kustomization.yaml`));
    const files = globSync('*', { cwd: join(ROOT, 'deploy/kubernetes', name) });
    expect(['kustomization.yaml', ...resources].sort()).toEqual(files.sort());
  });

  test('has the image and the settings of the overlay', () => {
    for (const { image } of containers) expect(image).toBe('plant-store');
    expect(service.envFrom).toEqual([{ configMapRef: { name: 'plant-store' } }]);
  });

  test('restricts every container as docker-compose.yml does', () => {
    expect(COMPOSE['x-service']).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      shareProcessNamespace: true, // instead of init
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    });
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(3 + 10);
    for (const { securityContext, resources } of containers) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(resources.limits.memory).toMatch(/^\d+[MG]i$/);
    }
  });

  test('has only valid settings in addition to those of the image', () => {
    const env = service.env ?? [];
    expect(env.map((setting) => setting.name).sort()).toEqual(
      [...settings, 'METRICS_HOST', 'METRICS_PORT'].sort(),
    );
    for (const setting of env) expect(SETTINGS).toContain(setting.name);
    const given = Object.fromEntries(env.flatMap(({ name, value }) => (value ? [[name, value]] : [])));
    const { port, dataDir, metrics } = readConfig({ ...IN_IMAGE, ...given });
    expect(service.ports).toEqual([
      { name: 'http', containerPort: port },
      { name: 'metrics', containerPort: metrics?.port },
    ]);
    const paths = service.volumeMounts.map(({ mountPath }) => mountPath);
    expect(paths).toEqual(expect.arrayContaining([dataDir, '/tmp']));
    for (const setting of settings.slice(1)) expect(paths).toContain(given[setting]?.replace(/\/[^/]*$/, ''));
  });
});

describe('deploy/kubernetes/sqlite/backup.yaml', () => {
  const [statefulSet, service] = objectsOf('sqlite/plant-store.yaml');
  const [claim, cronJob] = objectsOf('sqlite/backup.yaml');
  const { metadata, spec: pod } = cronJob.spec.jobTemplate.spec.template;
  const instance = statefulSet.spec.template;

  test('runs on the node of the instance, whose volume has one node only', () => {
    const [{ topologyKey, labelSelector }] =
      pod.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution;
    expect([topologyKey, labelSelector.matchLabels]).toEqual([
      'kubernetes.io/hostname',
      instance.metadata.labels,
    ]);
    const [template] = statefulSet.spec.volumeClaimTemplates;
    expect(template.spec.accessModes).toEqual(['ReadWriteOnce']);
    const claims = pod.volumes.flatMap(({ persistentVolumeClaim: one }: Volume) => one?.claimName ?? []);
    expect(claims).toEqual([`${template.metadata.name}-${statefulSet.metadata.name}-0`, claim.metadata.name]);
  });

  test('gets no requests of the Service', () => {
    expect(metadata.labels).not.toMatchObject(service.spec.selector);
  });

  test('is restricted as the instance is, and has its image and settings', () => {
    const { affinity, restartPolicy, volumes, containers, ...restrictions } = pod;
    expect(instance.spec).toMatchObject(restrictions);
    const [{ image, securityContext, envFrom }] = containers;
    expect(instance.spec.containers[0]).toMatchObject({ image, securityContext, envFrom });
  });
});
