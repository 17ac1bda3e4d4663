import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../src/config.ts';
import { ROOT } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const DOCKERFILE = textOf('Dockerfile');
const COMPOSE = textOf('docker-compose.yml');

/** Modules that a file loads, without types, but with threads by URL. */
const IMPORTED = /(?:^(?:import|export|\})(?! type).* from |\bimport\(|\bnew URL\()'([^'\s]+)'/gm;

describe('Dockerfile', () => {
  const held = [...DOCKERFILE.matchAll(/^COPY --from=build \/app\/(src|projections) /gm)].map(
    ([, dir]) => dir as string,
  );

  test('copies everything that the service imports into the image', () => {
    const { dependencies } = JSON.parse(textOf('package.json')) as { dependencies: Record<string, string> };
    const imports = globSync(`{${held.join(',')}}/**/*.ts`, { cwd: ROOT }).flatMap((file) =>
      [...textOf(file).matchAll(IMPORTED)].map(([, name]) => [file, name] as [string, string]),
    );
    expect(imports.length).toBeGreaterThan(100);
    const missing = imports.filter(([file, name]) => {
      if (name.startsWith('node:')) return false;
      if (!name.startsWith('.'))
        return !Object.keys(dependencies).some((of) => name === of || name.startsWith(`${of}/`));
      const [dir = ''] = relative(ROOT, resolve(ROOT, dirname(file), name)).split('/');
      return !held.includes(dir);
    });
    expect(missing).toEqual([]);
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
      ([, name = '']) => !name.startsWith('EVENTSTORE_'),
    );
    expect(new Set(given.map(([, name]) => name))).toEqual(new Set(['EVENTSTOREDB_URL', 'KEY_FILE']));
    const known = textOf('src/config.ts');
    for (const [, name = '', value = ''] of given) {
      expect(known).toContain(` ${name}: Type.`);
      expect(() => readConfig({ [name]: value })).not.toThrow();
    }
  });

  test('publishes ports on the loopback interface only', () => {
    const ports = [...COMPOSE.matchAll(/^ +ports: (.*)$/gm)].map(([, list]) => list as string);
    expect(ports).toHaveLength(3);
    for (const list of ports) expect(list).toMatch(/^\['127\.0\.0\.1:\d+:\d+'\]/);
  });
});
