import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readConfig, SETTINGS } from '../src/config.ts';
import { ROOT } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const DOCKERFILE = textOf('Dockerfile');
const COMPOSE = textOf('docker-compose.yml');

describe('Dockerfile', () => {
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

  test('publishes ports on the loopback interface only', () => {
    const ports = [...COMPOSE.matchAll(/^ +ports: (.*)$/gm)].map(([, list]) => list as string);
    expect(ports).toHaveLength(5);
    for (const list of ports) expect(list).toMatch(/^\['127\.0\.0\.1:\d+:\d+'\]/);
  });
});
