import { freePort } from '@event-sourced/node/testing';
import type { TestProject } from 'vitest/node';
import { UPGRADED } from './documented.ts';
import { obstacle } from './obstacle.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Absent if no container can be started. */
    eventStoreDb?: { url: string; containerId: string; inMemory: boolean };
    /** Whether each image of an upgrade can be started. */
    canUpgrade: boolean;
  }
}

const image = process.env.EVENTSTOREDB_IMAGE || 'kurrentplatform/kurrentdb:26.0';
/** What testcontainers would take by its tag: it removes the containers of a killed run. */
process.env.RYUK_CONTAINER_IMAGE ||=
  'testcontainers/ryuk:0.14.0@sha256:7c1a8a9a47c780ed0f983770a662f80deb115d95cce3e2daa3d12115b8cd28f0';
const { RYUK_CONTAINER_IMAGE: ryuk, TESTCONTAINERS_RYUK_DISABLED } = process.env;
const images = TESTCONTAINERS_RYUK_DISABLED === 'true' ? [image] : [image, ryuk];
const inMemory = process.env.EVENTSTOREDB_MEMORY === 'true';

/** The timeouts for pulling an image, in milliseconds; if containers are not required, a slow network skips them. */
const PULL_TIMEOUT_MS = 60_000;
const REQUIRED_PULL_TIMEOUT_MS = 900_000;
/** The timeout for the server to become healthy, in milliseconds. */
export const START_TIMEOUT_MS = 600_000;

export const PORT = 2113;

/** One EventStoreDB in a container for all tests; removed after them, whatever their result. */
export default async function setup(project: TestProject): Promise<(() => Promise<unknown>) | undefined> {
  const required = project.vitest.projects.length === 1; // these tests alone were asked for
  const can = async (what: string, names: readonly string[]): Promise<boolean> => {
    const why = await obstacle(names, required ? REQUIRED_PULL_TIMEOUT_MS : PULL_TIMEOUT_MS);
    if (why === undefined) return true;
    const outcome = required ? 'failed' : 'skipped';
    console.info(`${outcome}: ${what} cannot be tested here, since ${why}`);
    if (required) process.exitCode = 1;
    return false;
  };
  const canStart = await can('EventStoreDB in a container', images);
  project.provide('canUpgrade', canStart && (await can('an upgrade', Object.values(UPGRADED))));
  if (!canStart) return undefined;
  const container = await start();
  const url = `esdb://${container.getHost()}:${container.getMappedPort(PORT)}?tls=false`;
  project.provide('eventStoreDb', { url, containerId: container.getId(), inMemory });
  return () => container.stop();
}

async function start() {
  const { GenericContainer } = await import('testcontainers');
  return (
    new GenericContainer(image)
      .withEnvironment(environment())
      // A port chosen by Docker would change on a restart.
      .withExposedPorts({ container: PORT, host: await freePort() })
      .withWaitStrategy(await serverIsLive())
      .withStartupTimeout(START_TIMEOUT_MS)
      .start()
  );
}

/** Ends a start when the server is healthy, or its container has exited. */
export async function serverIsLive() {
  const { Wait } = await import('testcontainers');
  return Wait.forHttp('/health/live', PORT, { abortOnContainerExit: true }).forStatusCode(204);
}

/** For EventStoreDB and for KurrentDB, which have different prefixes. */
function environment(): Record<string, string> {
  const settings = { INSECURE: 'true', CLUSTER_SIZE: '1', RUN_PROJECTIONS: 'None', MEM_DB: `${inMemory}` };
  return Object.fromEntries(
    ['EVENTSTORE', 'KURRENTDB'].flatMap((prefix) =>
      Object.entries(settings).map(([name, value]) => [`${prefix}_${name}`, value]),
    ),
  );
}
